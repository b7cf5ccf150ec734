/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Faults that happen at a drawn call of some routines. Each fault counts calls
 * from the previous fault on, in the order of ID; all routines of a kind count
 * together.
 */
#ifndef RIOBED_INJECT_CALLS_H
#define RIOBED_INJECT_CALLS_H

#include <linux/atomic.h>
#include <linux/sched.h>

#include "inject.h"

struct call_faults {
	enum inject_kind kind;
	const char *name;
	unsigned int count;		/* of cmds */
	unsigned int next;		/* happens next; those before it have happened */
	bool armed;
	atomic_t left;			/* the call that makes it 0 is the drawn one */
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
	if (!READ_ONCE(faults->armed) || READ_ONCE(calls_ignored) == current)
		return false;
	return !atomic_dec_return(&faults->left);
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
		atomic_set(&faults->left, faults->cmds[faults->next]->calls + uncounted);
	return taken;
}

#endif
