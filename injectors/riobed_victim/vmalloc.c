// SPDX-License-Identifier: GPL-2.0-only
/*
 * vmalloc: an area so large that nearly every flip in such memory hits it. A write
 * fills it with the pattern; reading gives what has changed.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>
#include <linux/vmalloc.h>

#include "pattern.h"
#include "victim.h"

#define SIZE	(64 << 20)

static u8 *area;

static ssize_t vmalloc_write(struct file *file, const char __user *from, size_t len, loff_t *pos)
{
	if (!area)
		area = vmalloc(SIZE);
	if (!area)
		return -ENOMEM;
	memset(area, PATTERN, SIZE);
	return len;
}

static int vmalloc_show(struct seq_file *s, void *unused)
{
	if (area)
		show_changes(s, area, SIZE);
	return 0;
}
DEFINE_SHOW_STORE_ATTRIBUTE(vmalloc);

void vmalloc_create(struct dentry *folder)
{
	debugfs_create_file("vmalloc", 0600, folder, NULL, &vmalloc_fops);
}
