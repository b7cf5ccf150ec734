// SPDX-License-Identifier: GPL-2.0-only
/*
 * heap: enough objects that nearly every flip hits one. A write fills them with
 * the pattern; reading gives what has changed.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/vmalloc.h>

#include "pattern.h"
#include "victim.h"

#define OBJECTS	98304
#define SIZE	1024

static u8 **objects;

static int make_objects(void)
{
	struct kmem_cache *cache = kmem_cache_create("riobed_victim_heap", SIZE, 0, 0, NULL);
	unsigned int i;

	objects = vcalloc(OBJECTS, sizeof(*objects));
	if (!cache || !objects)
		return -ENOMEM;
	for (i = 0; i < OBJECTS; i++) {
		objects[i] = kmem_cache_alloc(cache, GFP_KERNEL);
		if (!objects[i])
			return -ENOMEM;
	}
	return 0;
}

static ssize_t heap_write(struct file *file, const char __user *from, size_t len, loff_t *pos)
{
	int ret = objects ? 0 : make_objects();
	unsigned int i;

	for (i = 0; i < OBJECTS && !ret; i++)
		memset(objects[i], PATTERN, SIZE);
	return ret ?: len;
}

static int heap_show(struct seq_file *s, void *unused)
{
	unsigned int i;

	for (i = 0; objects && i < OBJECTS; i++)
		show_changes(s, objects[i], SIZE);
	return 0;
}
DEFINE_SHOW_STORE_ATTRIBUTE(heap);

void heap_create(struct dentry *folder)
{
	debugfs_create_file("heap", 0600, folder, NULL, &heap_fops);
}
