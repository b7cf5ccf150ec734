// SPDX-License-Identifier: GPL-2.0-only
/*
 * stack: threads that sleep with a large array on their stacks. A write starts
 * them; reading wakes them and gives what has changed.
 */
#include <linux/completion.h>
#include <linux/debugfs.h>
#include <linux/kthread.h>
#include <linux/seq_file.h>

#include "pattern.h"
#include "victim.h"

#define THREADS	200
#define SIZE	(12 * 1024)

static DECLARE_COMPLETION(asleep);
static DECLARE_COMPLETION(wake);
static DECLARE_COMPLETION(awake);
static struct seq_file *out;
static DEFINE_MUTEX(out_lock);

static int sleeper(void *unused)
{
	u8 array[SIZE];

	memset(array, PATTERN, sizeof(array));
	barrier_data(array);
	complete(&asleep);
	wait_for_completion(&wake);
	barrier_data(array);
	mutex_lock(&out_lock);
	show_changes(out, array, sizeof(array));
	mutex_unlock(&out_lock);
	complete(&awake);
	return 0;
}

static ssize_t stack_write(struct file *file, const char __user *from, size_t len, loff_t *pos)
{
	unsigned int i;

	for (i = 0; i < THREADS; i++) {
		struct task_struct *task = kthread_run(sleeper, NULL, "riobed_victim");

		if (IS_ERR(task))
			return PTR_ERR(task);
		wait_for_completion(&asleep);
	}
	return len;
}

static int stack_show(struct seq_file *s, void *unused)
{
	unsigned int i;

	out = s;
	for (i = 0; i < THREADS; i++) {
		complete(&wake);
		wait_for_completion(&awake);
	}
	return 0;
}
DEFINE_SHOW_STORE_ATTRIBUTE(stack);

void stack_create(struct dentry *folder)
{
	debugfs_create_file("stack", 0600, folder, NULL, &stack_fops);
}
