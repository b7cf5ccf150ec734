// SPDX-License-Identifier: GPL-2.0-only
#include <linux/debugfs.h>
#include <linux/module.h>

#include "victim.h"

static int __init victim_init(void)
{
	struct dentry *folder = debugfs_create_dir("riobed_victim", NULL);

	text_create(folder);
	heap_create(folder);
	vmalloc_create(folder);
	stack_create(folder);
	allocation_create(folder);
	copies_create(folder);
	locks_create(folder);
	return 0;
}

/* No exit: after a fault, nothing in the module can be trusted. */
module_init(victim_init);

MODULE_DESCRIPTION("victim of riobed's faults");
MODULE_LICENSE("GPL");
