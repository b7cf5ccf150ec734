// SPDX-License-Identifier: GPL-2.0-only
/*
 * copies: a write of at least BUFFER bytes copies a part of it many times with
 * each routine; reading gives ROUTINE BYTES of each copy that was too long.
 */
#include <linux/debugfs.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/uaccess.h>
#include <linux/uio.h>
#include <linux/vmalloc.h>

#include "pattern.h"
#include "victim.h"

#define BUFFER	16384
#define ROUNDS	30000
#define FOUND	64

static size_t length = 777;	/* not known to the compiler: the routine is called */
static struct {
	const char *routine;
	size_t bytes;
} found[FOUND];
static unsigned int nr_found;

static void look(const char *routine, u8 *to)
{
	size_t bytes = 0;

	while (bytes < BUFFER - length && to[length + bytes] != PATTERN)
		bytes++;
	if (!bytes)
		return;
	memset(to + length, PATTERN, bytes);
	if (nr_found < FOUND) {
		found[nr_found].routine = routine;
		found[nr_found++].bytes = bytes;
	}
}

static int copy_past_the_caches(u8 *to, const u8 *from, char __user *user)
{
	struct iov_iter iter;
	int ret = import_ubuf(ITER_SOURCE, user, READ_ONCE(length), &iter);

	memcpy_flushcache(to, from, READ_ONCE(length));
	look("__memcpy_flushcache", to);
	if (!ret && _copy_from_iter_flushcache(to, length, &iter) != length)
		ret = -EFAULT;
	look("copy_to_nontemporal", to);
	return ret;
}

static int copy(u8 *to, const u8 *from, char __user *user)
{
	unsigned int i;

	for (i = 0; i < ROUNDS; i++) {
		memcpy(to, from, READ_ONCE(length));
		look("memcpy", to);
		memmove(to, from, READ_ONCE(length));
		look("memmove", to);
		if (copy_from_user(to, user, READ_ONCE(length)))
			return -EFAULT;
		look("rep_movs_alternative", to);
		if (copy_past_the_caches(to, from, user))
			return -EFAULT;
		/* No fault may hit this one. */
		if (copy_to_user(user, from, READ_ONCE(length)))
			return -EFAULT;
	}
	return 0;
}

static ssize_t copies_write(struct file *file, const char __user *from, size_t len, loff_t *pos)
{
	u8 *buffers = vmalloc(2 * BUFFER);
	int ret = -EFAULT;

	if (!buffers)
		return -ENOMEM;
	memset(buffers + BUFFER, PATTERN, BUFFER);
	if (len >= BUFFER && !copy_from_user(buffers, from, BUFFER))
		ret = copy(buffers + BUFFER, buffers, (char __user *)from);
	vfree(buffers);
	return ret ?: len;
}

static int copies_show(struct seq_file *s, void *unused)
{
	unsigned int i;

	for (i = 0; i < nr_found; i++)
		seq_printf(s, "%s %zu\n", found[i].routine, found[i].bytes);
	return 0;
}
DEFINE_SHOW_STORE_ATTRIBUTE(copies);

void copies_create(struct dentry *folder)
{
	debugfs_create_file("copies", 0600, folder, NULL, &copies_fops);
}
