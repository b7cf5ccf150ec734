// SPDX-License-Identifier: GPL-2.0-only
/*
 * Synchronization faults: at the drawn call a procedure that acquires or frees
 * a lock returns without doing anything, as if its caller had forgotten it. The
 * procedure's other effects are left out, too: interrupts, softirqs and
 * preemption stay as they are.
 *
 * Acquire and release of spinlocks, mutexes, rwsems, folios and buffers are
 * hooked, and they count together. The compiler makes the acquire of a folio or
 * buffer inline and calls a procedure only to wait for another owner: the fault is
 * then not to wait. Not hooked are trylocks, which may fail anyway, rwlocks, and
 * locks that are not procedures (other bit locks, seqcounts, RCU).
 */
#include <linux/buffer_head.h>
#include <linux/mutex.h>
#include <linux/pagemap.h>
#include <linux/rwsem.h>
#include <linux/spinlock.h>

#include "calls.h"
#include "hooks.h"

#define PROCEDURE(function) { #function, function }

static const struct hook procedures[] = {
	PROCEDURE(_raw_spin_lock),
	PROCEDURE(_raw_spin_lock_bh),
	PROCEDURE(_raw_spin_lock_irq),
	PROCEDURE(_raw_spin_lock_irqsave),
	PROCEDURE(_raw_spin_unlock),
	PROCEDURE(_raw_spin_unlock_bh),
	PROCEDURE(_raw_spin_unlock_irq),
	PROCEDURE(_raw_spin_unlock_irqrestore),
	PROCEDURE(mutex_lock),
	PROCEDURE(mutex_lock_interruptible),
	PROCEDURE(mutex_lock_killable),
	PROCEDURE(mutex_unlock),
	PROCEDURE(down_read),
	PROCEDURE(down_read_interruptible),
	PROCEDURE(down_read_killable),
	PROCEDURE(up_read),
	PROCEDURE(down_write),
	PROCEDURE(down_write_killable),
	PROCEDURE(up_write),
	PROCEDURE(__folio_lock),
	PROCEDURE(__folio_lock_killable),
	PROCEDURE(folio_unlock),
	PROCEDURE(__lock_buffer),
	PROCEDURE(unlock_buffer),
};

static struct call_faults skips = {
	.kind = INJECT_SYNCHRONIZATION,
	.name = "synchronization",
};

/* In any context, also while the scheduler holds its own locks. */
static void lock_called(unsigned long ip, unsigned long caller, struct ftrace_ops *ops,
			struct ftrace_regs *regs)
{
	const struct hook *procedure;
	unsigned int id;

	if (!calls_due(&skips))
		return;
	id = skips.cmds[calls_take(&skips, 0)]->id;
	procedure = hook_at(procedures, ARRAY_SIZE(procedures), ip);
	evidence_activated(id);
	evidence_lock(id, procedure ? procedure->name : "?", caller);
	if (ip == (unsigned long)_raw_spin_lock_irqsave)
		ftrace_regs_set_instruction_pointer(regs, (unsigned long)lock_skipped_flags);
	else
		ftrace_regs_set_instruction_pointer(regs, (unsigned long)lock_skipped);
}

static struct ftrace_ops lock_ops = {
	.func = lock_called,
	.flags = FTRACE_OPS_FL_IPMODIFY,
};

static int synchronization_prepare(const struct inject_command *cmds, unsigned int count)
{
	int ret;

	calls_prepare(&skips, cmds, count);
	if (!skips.count)
		return 0;
	ret = hooks_register(&lock_ops, procedures, ARRAY_SIZE(procedures));
	if (ret)
		skips.count = 0;
	return ret;
}

static void synchronization_release(void)
{
	if (skips.count)
		hooks_unregister(&lock_ops);
	skips.count = 0;
}

static void synchronization_apply(void)
{
	calls_apply(&skips);
}

static void synchronization_show(struct seq_file *s)
{
	calls_show(&skips, s);
}

const struct fault_kind synchronization_kind = {
	.prepare = synchronization_prepare,
	.release = synchronization_release,
	.apply = synchronization_apply,
	.show = synchronization_show,
};
