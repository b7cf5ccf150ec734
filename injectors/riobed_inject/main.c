// SPDX-License-Identifier: GPL-2.0-only
/*
 * Fault injector of riobed: /dev/riobed-inject takes a batch of commands
 * (parse.c), one per line. One open file is one batch. Nothing is changed before
 * `go`. Then the whole batch is checked and everything that may fail or sleep is
 * done, for all of it or for nothing. Later, or at once, it takes effect, with all
 * CPUs stopped (trigger.c). The module takes only one batch, and it cannot be
 * unloaded afterwards.
 *
 * read(2) returns the state of every fault of the batch.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/miscdevice.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "calls.h"

struct batch {
	bool refused;			/* a command was wrong: no go */
	unsigned int count;
	unsigned int pending;		/* bytes of an unfinished line */
	char line[INJECT_LINE_MAX];
	struct inject_command cmds[INJECT_MAX + 1];	/* and go */
};

static const struct fault_kind *const kinds[] = {
	&text_kind, &flip_kind, &allocation_kind, &copy_kind, &synchronization_kind,
};

static DEFINE_MUTEX(inject_lock);
static struct batch *loaded;		/* owns its commands for ever */

/* --- loading --- */

static void apply_all(void)
{
	unsigned int i;

	for (i = 0; i < ARRAY_SIZE(kinds); i++)
		kinds[i]->apply();
}

static bool conflict(const struct inject_command *a, const struct inject_command *b)
{
	if (a->id == b->id)
		return true;
	return a->kind == INJECT_TEXT && b->kind == INJECT_TEXT &&
	       a->addr < b->addr + b->len && b->addr < a->addr + a->len;
}

static int check_conflicts(const struct batch *batch)
{
	unsigned int i, j;

	for (i = 0; i < batch->count; i++) {
		for (j = 0; j < i; j++) {
			if (conflict(&batch->cmds[i], &batch->cmds[j])) {
				pr_err("faults %u and %u: same id or overlapping bytes\n",
				       batch->cmds[j].id, batch->cmds[i].id);
				return -EINVAL;
			}
		}
	}
	return 0;
}

/* Does everything that may fail; undoes it all on an error. */
static int prepare(const struct batch *batch)
{
	unsigned int i;
	int ret = check_conflicts(batch);

	for (i = 0; i < ARRAY_SIZE(kinds) && !ret; i++)
		ret = kinds[i]->prepare(batch->cmds, batch->count);
	if (!ret && !try_module_get(THIS_MODULE))
		ret = -ENODEV;
	while (ret && i--)
		kinds[i]->release();
	return ret;
}

static int go(struct batch *batch, const struct inject_command *cmd)
{
	int ret;

	lockdep_assert_held(&inject_lock);
	if (loaded)
		return -EBUSY;
	if (batch->refused)
		return -EINVAL;
	if (!batch->count)
		return -ENODATA;
	ret = prepare(batch);
	if (ret)
		return ret;
	loaded = batch;
	evidence_ready(batch->count);
	return trigger_arm(cmd, apply_all);
}

/* --- the device --- */

static int run_line(struct batch *batch, unsigned int len)
{
	struct inject_command *cmd = &batch->cmds[batch->count];
	const char *wrong;

	if (loaded)
		return -EBUSY;
	wrong = inject_parse(batch->line, len, cmd);
	if (!wrong && cmd->kind != INJECT_GO && batch->count == INJECT_MAX)
		wrong = "too many faults";
	if (wrong) {
		pr_err("command refused: %s: %.*s\n", wrong, len, batch->line);
		return -EINVAL;
	}
	if (cmd->kind == INJECT_GO)
		return go(batch, cmd);
	batch->count++;
	return 0;
}

/* One character of the stream; lines may be split over writes anywhere. */
static int take(struct batch *batch, char c)
{
	unsigned int len = batch->pending;

	if (c != '\n') {
		if (len == sizeof(batch->line))
			return -EINVAL;
		batch->line[batch->pending++] = c;
		return 0;
	}
	batch->pending = 0;
	return run_line(batch, len);
}

static int take_all(struct batch *batch, const char *text, size_t len)
{
	int ret = 0;

	for (; len && !ret; len--)
		ret = take(batch, *text++);
	if (ret)
		batch->refused = true;
	return ret;
}

static ssize_t inject_write(struct file *file, const char __user *from, size_t len, loff_t *pos)
{
	struct batch *batch = ((struct seq_file *)file->private_data)->private;
	char *text;
	int ret;

	len = min_t(size_t, len, PAGE_SIZE);
	text = memdup_user(from, len);
	if (IS_ERR(text))
		return PTR_ERR(text);
	mutex_lock(&inject_lock);
	ret = take_all(batch, text, len);
	mutex_unlock(&inject_lock);
	kfree(text);
	return ret ?: len;
}

static ssize_t inject_read(struct file *file, char __user *to, size_t len, loff_t *pos)
{
	ssize_t ret;

	/* the injector's own calls do not count */
	WRITE_ONCE(calls_ignored, current);
	ret = seq_read(file, to, len, pos);
	WRITE_ONCE(calls_ignored, NULL);
	return ret;
}

static int inject_show(struct seq_file *s, void *unused)
{
	unsigned int i;

	mutex_lock(&inject_lock);
	seq_printf(s, "%s\n", trigger_state());
	for (i = 0; loaded && i < ARRAY_SIZE(kinds); i++)
		kinds[i]->show(s);
	mutex_unlock(&inject_lock);
	return 0;
}

static int inject_open(struct inode *inode, struct file *file)
{
	struct batch *batch = kvzalloc(sizeof(*batch), GFP_KERNEL);
	int ret;

	if (!batch)
		return -ENOMEM;
	file->private_data = NULL;	/* misc_open() left the device there */
	ret = single_open(file, inject_show, batch);
	if (ret)
		kvfree(batch);
	return ret;
}

static int inject_release(struct inode *inode, struct file *file)
{
	struct batch *batch = ((struct seq_file *)file->private_data)->private;

	if (batch != loaded)
		kvfree(batch);
	return single_release(inode, file);
}

static const struct file_operations inject_fops = {
	.owner = THIS_MODULE,
	.open = inject_open,
	.read = inject_read,
	.write = inject_write,
	.llseek = seq_lseek,
	.release = inject_release,
};

static struct miscdevice inject_device = {
	.minor = MISC_DYNAMIC_MINOR,
	.name = "riobed-inject",
	.fops = &inject_fops,
	.mode = 0600,
};

static int __init inject_init(void)
{
	int ret = text_init();

	if (ret)
		return ret;
	ret = trigger_init();
	if (ret)
		goto no_trigger;
	ret = misc_register(&inject_device);
	if (!ret)
		return 0;
	trigger_exit();
no_trigger:
	text_exit();
	return ret;
}

static void __exit inject_exit(void)
{
	misc_deregister(&inject_device);
	trigger_exit();
	text_exit();
}

module_init(inject_init);
module_exit(inject_exit);

MODULE_DESCRIPTION("riobed fault injector");
MODULE_LICENSE("GPL");
