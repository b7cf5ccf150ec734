// SPDX-License-Identifier: GPL-2.0-only
/*
 * locks: takes and frees locks of each kind many times. Prints PROCEDURE COUNT: how
 * often a lock was not held after it was taken, or still held after it was freed.
 * A second release then frees it.
 */
#include <linux/buffer_head.h>
#include <linux/debugfs.h>
#include <linux/mutex.h>
#include <linux/pagemap.h>
#include <linux/rwsem.h>
#include <linux/seq_file.h>
#include <linux/spinlock.h>

#include "victim.h"

#define ROUNDS	20000

static DEFINE_SPINLOCK(spin);
static DEFINE_MUTEX(mutex);
static DECLARE_RWSEM(rwsem);
static struct folio *folio;
static struct buffer_head *buffer;

/*
 * One statement that takes, one that frees, and a test whether the lock is held. The
 * test asks the lock itself, because the guest's kernel has no lockdep.
 */
#define TRY(take, free, held) do {		\
	static unsigned int skipped[2];		\
						\
	counters[nr] = skipped;			\
	names[nr++] = #take " " #free;		\
	take;					\
	if (!(held)) {				\
		skipped[0]++;			\
		break;				\
	}					\
	free;					\
	if (held) {				\
		skipped[1]++;			\
		free;				\
	}					\
} while (0)

static unsigned int *counters[16];
static const char *names[16];	/* the acquire of a folio or buffer is inline here */
static unsigned int nr;

static void one_round(void)
{
	unsigned long flags;

	nr = 0;
	TRY(spin_lock(&spin), spin_unlock(&spin), spin_is_locked(&spin));
	TRY(spin_lock_bh(&spin), spin_unlock_bh(&spin), spin_is_locked(&spin));
	TRY(spin_lock_irq(&spin), spin_unlock_irq(&spin), spin_is_locked(&spin));
	TRY(spin_lock_irqsave(&spin, flags), spin_unlock_irqrestore(&spin, flags),
	    spin_is_locked(&spin));
	TRY(mutex_lock(&mutex), mutex_unlock(&mutex), mutex_is_locked(&mutex));
	TRY(down_read(&rwsem), up_read(&rwsem), rwsem_is_locked(&rwsem));
	TRY(down_write(&rwsem), up_write(&rwsem), rwsem_is_locked(&rwsem));
	TRY(folio_lock(folio), folio_unlock(folio), folio_test_locked(folio));
	TRY(lock_buffer(buffer), unlock_buffer(buffer), buffer_locked(buffer));
}

static int locks_show(struct seq_file *s, void *unused)
{
	unsigned int i;

	folio = folio ?: folio_alloc(GFP_KERNEL, 0);
	buffer = buffer ?: alloc_buffer_head(GFP_KERNEL);
	if (!folio || !buffer)
		return -ENOMEM;
	for (i = 0; i < ROUNDS; i++)
		one_round();
	for (i = 0; i < nr; i++)
		seq_printf(s, "%u %u %s\n", counters[i][0], counters[i][1], names[i]);
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(locks);

void locks_create(struct dentry *folder)
{
	debugfs_create_file("locks", 0400, folder, NULL, &locks_fops);
}
