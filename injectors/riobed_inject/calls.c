// SPDX-License-Identifier: GPL-2.0-only
/*
 * Faults that happen at a drawn call: select them from the batch, arm and show them.
 */
#include <linux/seq_file.h>
#include <linux/sort.h>
#include <linux/timekeeping.h>

#include "calls.h"

struct task_struct *calls_ignored;

static int by_id(const void *a, const void *b)
{
	const struct inject_command *const *x = a, *const *y = b;

	return (*x)->id < (*y)->id ? -1 : 1;
}

void calls_prepare(struct call_faults *faults, const struct inject_command *cmds,
		   unsigned int count)
{
	unsigned int i;

	faults->count = 0;
	for (i = 0; i < count; i++)
		if (cmds[i].kind == faults->kind)
			faults->cmds[faults->count++] = &cmds[i];
	sort(faults->cmds, faults->count, sizeof(*faults->cmds), by_id, NULL);
}

void calls_apply(struct call_faults *faults)
{
	unsigned int i;
	u64 ns;

	if (!faults->count)
		return;
	ns = ktime_get_mono_fast_ns();
	calls_arm(faults, 0);
	faults->armed = true;
	for (i = 0; i < faults->count; i++)
		evidence_injected(faults->cmds[i]->id, ns);
}

void calls_show(struct call_faults *faults, struct seq_file *s)
{
	unsigned int i;

	for (i = 0; i < faults->count; i++)
		seq_printf(s, "%s %u %s\n", faults->name, faults->cmds[i]->id,
			   i < faults->next ? "activated" : "armed");
}
