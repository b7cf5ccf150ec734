// SPDX-License-Identifier: GPL-2.0-only
/*
 * allocation: allocates enough blocks for a fault to hit one, waits until that one
 * has been freed early, and allocates as many again. Prints ADDRESS of each block
 * that was handed out while it was in use.
 */
#include <linux/debugfs.h>
#include <linux/delay.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "victim.h"

#define BLOCKS		30000
#define IN_USE		0x7269766963746d21	/* at offset 0, where the allocator keeps nothing */

static int allocate(struct kmem_cache *cache, struct seq_file *s)
{
	unsigned int i;

	for (i = 0; i < BLOCKS; i++) {
		u64 *block = kmem_cache_alloc(cache, GFP_KERNEL);

		if (!block)
			return -ENOMEM;
		if (READ_ONCE(*block) == IN_USE)
			seq_printf(s, "%lx\n", (unsigned long)block);
		WRITE_ONCE(*block, IN_USE);
	}
	return 0;
}

static int allocation_show(struct seq_file *s, void *unused)
{
	struct kmem_cache *cache = kmem_cache_create("riobed_victim_blocks", 128, 0, 0, NULL);
	int ret;

	if (!cache)
		return -ENOMEM;
	ret = allocate(cache, s);
	msleep(400);
	return ret ?: allocate(cache, s);
}
DEFINE_SHOW_ATTRIBUTE(allocation);

void allocation_create(struct dentry *folder)
{
	debugfs_create_file("allocation", 0400, folder, NULL, &allocation_fops);
}
