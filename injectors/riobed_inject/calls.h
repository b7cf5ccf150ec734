/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Faults that happen at a drawn call of some routines. Each fault counts calls
 * from the previous fault on, in the order of ID; all routines of a kind count
 * together. Or it waits: then it is the first call after a time from the previous
 * fault. Time is read from jiffies, because no function may be called.
 */
#ifndef RIOBED_INJECT_CALLS_H
#define RIOBED_INJECT_CALLS_H

#include <linux/atomic.h>
#include <linux/jiffies.h>
#include <linux/sched.h>

#include "inject.h"

struct call_faults {
	enum inject_kind kind;
	const char *name;
	unsigned int count;		/* of cmds */
	unsigned int next;		/* happens next; those before it have happened */
	bool armed;
	atomic_t left;			/* the call that makes it 0 is the drawn one */
	unsigned long due;		/* or the first call from then on, unless it is 0 */
	const struct inject_command *cmds[INJECT_MAX];	/* in the order of ID */
};

extern struct task_struct *calls_ignored;	/* the injector itself */

void calls_prepare(struct call_faults *faults, const struct inject_command *cmds,
		   unsigned int count);
void calls_apply(struct call_faults *faults);
void calls_show(struct call_faults *faults, struct seq_file *s);

/* Count one call; true if it is the drawn one. */
static __always_inline bool calls_due(struct call_faults *faults)
{
	unsigned long due = READ_ONCE(faults->due);

	if (!READ_ONCE(faults->armed) || READ_ONCE(calls_ignored) == current)
		return false;
	if (due)
		return time_after_eq(jiffies, due) && cmpxchg(&faults->due, due, 0) == due;
	return !atomic_dec_return(&faults->left);
}

/* Arm the fault that happens next. It does not count so many of the calls that follow. */
static __always_inline void calls_arm(struct call_faults *faults, unsigned int uncounted)
{
	const struct inject_command *cmd = faults->cmds[faults->next];

	/* A fault that waits leaves 0, from which no call counts down to 0. */
	atomic_set(&faults->left, cmd->calls ? cmd->calls + uncounted : 0);
	WRITE_ONCE(faults->due, cmd->wait ? (jiffies + (u64)cmd->wait * HZ / MSEC_PER_SEC) | 1 : 0);
}

/*
 * Returns the number (in cmds) of the due fault and arms the next one. The fault itself
 * then makes uncounted calls.
 */
static inline unsigned int calls_take(struct call_faults *faults, unsigned int uncounted)
{
	unsigned int taken = faults->next++;

	if (faults->next == faults->count)
		WRITE_ONCE(faults->armed, false);
	else
		calls_arm(faults, uncounted);
	return taken;
}

#endif
