// SPDX-License-Identifier: GPL-2.0-only
/*
 * Allocation faults: the block of the drawn allocation is freed some
 * milliseconds later, behind its owner's back (the paper, section 3.1).
 *
 * All forms of kmalloc() and kmem_cache_alloc() that return one block are
 * hooked, and they count together. As in the paper the block is always freed,
 * even if its owner has already freed it; the evidence says which it was.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/hrtimer.h>
#include <linux/seq_file.h>
#include <linux/slab.h>

#include "calls.h"
#include "hooks.h"

struct early_free {
	unsigned long go_on;	/* allocation_stub.S wants it first */
	unsigned int id;
	unsigned int ms;
	const char *routine;
	const char *cache;
	unsigned long size;
	void *block;
	struct hrtimer timer;
	enum { ARMED, WAITING, FREED, NO_BLOCK } state;
};

#define ALLOCATOR(function) { #function, function }

static const struct hook allocators[] = {
	ALLOCATOR(__kmalloc_noprof),
	ALLOCATOR(__kmalloc_node_noprof),
	ALLOCATOR(__kmalloc_node_track_caller_noprof),
	ALLOCATOR(__kmalloc_cache_noprof),
	ALLOCATOR(__kmalloc_cache_node_noprof),
	ALLOCATOR(__kmalloc_large_noprof),
	ALLOCATOR(__kmalloc_large_node_noprof),
	ALLOCATOR(kmem_cache_alloc_noprof),
	ALLOCATOR(kmem_cache_alloc_lru_noprof),
	ALLOCATOR(kmem_cache_alloc_node_noprof),
};

static const char *const states[] = {
	[ARMED] = "armed", [WAITING] = "waiting", [FREED] = "activated", [NO_BLOCK] = "no block",
};

static struct call_faults allocations = {
	.kind = INJECT_ALLOCATION,
	.name = "allocation",
};

static struct early_free frees[INJECT_MAX];	/* in the order of allocations.cmds */

static enum hrtimer_restart free_early(struct hrtimer *timer)
{
	struct early_free *early = container_of(timer, struct early_free, timer);

	evidence_activated(early->id);
	evidence_free(early->id, early->routine, early->cache, early->size, early->block,
		      heap_is_live(early->block));
	early->state = FREED;
	kfree(early->block);
	return HRTIMER_NORESTART;
}

/* Called by allocation_stub.S, in the context of the allocating caller. */
void allocation_made(struct early_free *early, void *block)
{
	if (ZERO_OR_NULL_PTR(block)) {
		early->state = NO_BLOCK;
		return;
	}
	early->block = block;
	heap_describe(block, &early->cache, &early->size);
	early->state = WAITING;
	hrtimer_start(&early->timer, ms_to_ktime(early->ms), HRTIMER_MODE_REL_SOFT);
}

static void allocator_called(unsigned long ip, unsigned long caller, struct ftrace_ops *ops,
			     struct ftrace_regs *regs)
{
	struct early_free *early;
	const struct hook *allocator;

	if (!calls_due(&allocations))
		return;
	early = &frees[calls_take(&allocations, 0)];
	allocator = hook_at(allocators, ARRAY_SIZE(allocators), ip);
	early->routine = allocator ? allocator->name : "?";
	early->go_on = ip + MCOUNT_INSN_SIZE;
	arch_ftrace_regs(regs)->regs.ax = (unsigned long)early;
	ftrace_regs_set_instruction_pointer(regs, (unsigned long)allocation_caught);
}

static struct ftrace_ops allocation_ops = {
	.func = allocator_called,
	.flags = FTRACE_OPS_FL_IPMODIFY,
};

static int allocation_prepare(const struct inject_command *cmds, unsigned int count)
{
	unsigned int i;
	int ret;

	calls_prepare(&allocations, cmds, count);
	if (!allocations.count)
		return 0;
	for (i = 0; i < allocations.count; i++) {
		frees[i] = (struct early_free) {
			.id = allocations.cmds[i]->id,
			.ms = allocations.cmds[i]->ms,
		};
		hrtimer_init(&frees[i].timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_SOFT);
		frees[i].timer.function = free_early;
	}
	ret = hooks_register(&allocation_ops, allocators, ARRAY_SIZE(allocators));
	if (ret)
		allocations.count = 0;
	return ret;
}

static void allocation_release(void)
{
	if (allocations.count)
		hooks_unregister(&allocation_ops);
	allocations.count = 0;
}

static void allocation_apply(void)
{
	calls_apply(&allocations);
}

static void allocation_show(struct seq_file *s)
{
	unsigned int i;

	for (i = 0; i < allocations.count; i++)
		seq_printf(s, "allocation %u %s\n", frees[i].id, states[frees[i].state]);
}

const struct fault_kind allocation_kind = {
	.prepare = allocation_prepare,
	.release = allocation_release,
	.apply = allocation_apply,
	.show = allocation_show,
};
