// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bit flips in the kernel's heap and stacks. Their addresses are drawn from the
 * command's seed while all CPUs are stopped: an address that was drawn earlier
 * might no longer be in an object or in a stack in use.
 *
 * The first flips of a batch are watched; the activation of the others is
 * unknown.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/seq_file.h>
#include <linux/timekeeping.h>

#include "inject.h"

#define TRIES	100	/* draws of a byte that is not flipped yet */

struct flip {
	const struct inject_command *cmd;
	struct flip_target target;
	u8 mask;
	bool drawn;
};

static struct flip flips[INJECT_MAX];
static unsigned int nr_flips;
static bool in_heap;

static bool taken(const struct flip *flip)
{
	const struct flip *other;

	for (other = flips; other < flip; other++)
		if (other->drawn && other->target.at == flip->target.at)
			return true;
	return false;
}

static bool draw(struct flip *flip, u64 *random)
{
	unsigned int tries;

	for (tries = 0; tries < TRIES; tries++) {
		bool found = flip->cmd->kind == INJECT_HEAP ?
			heap_draw(flip->cmd->heap, random, &flip->target) :
			stack_draw(random, &flip->target);

		if (found && !taken(flip))
			return true;
	}
	return false;
}

static void draw_one(struct flip *flip)
{
	u64 random = flip->cmd->seed;

	flip->mask = 1 << (next_random(&random) % 8);
	flip->drawn = draw(flip, &random);
}

static void apply_one(unsigned int number)
{
	struct flip *flip = &flips[number];

	if (!flip->drawn)
		return;
	*flip->target.at ^= flip->mask;
	if (number < WATCHES)
		watch_set(number, flip->cmd->id, flip->target.at);
	evidence_injected(flip->cmd->id, ktime_get_mono_fast_ns());
	evidence_flip(flip->cmd, &flip->target, flip->mask);
}

static int flip_prepare(const struct inject_command *cmds, unsigned int count)
{
	unsigned int i;
	int ret;

	for (i = 0; i < count; i++) {
		in_heap |= cmds[i].kind == INJECT_HEAP;
		if (cmds[i].kind == INJECT_HEAP || cmds[i].kind == INJECT_STACK)
			flips[nr_flips++].cmd = &cmds[i];
	}
	ret = in_heap ? heap_prepare() : 0;
	return ret ?: watch_prepare(min_t(unsigned int, nr_flips, WATCHES));
}

static void flip_release(void)
{
	watch_release();
	heap_release();
	in_heap = false;
	nr_flips = 0;
}

static void flip_apply(void)
{
	unsigned int i;

	if (in_heap)
		heap_apply();
	/* Drawing reads page tables and descriptions of pages: none is to be flipped yet. */
	for (i = 0; i < nr_flips; i++)
		draw_one(&flips[i]);
	for (i = 0; i < nr_flips; i++)
		apply_one(i);
}

static void flip_show(struct seq_file *s)
{
	unsigned int i;

	for (i = 0; i < nr_flips; i++)
		seq_printf(s, "%s %u %s\n", flips[i].cmd->kind == INJECT_HEAP ? "heap" : "stack",
			   flips[i].cmd->id, !flips[i].drawn ? "not injected" :
			   i < WATCHES ? watch_state(i) : "unwatched");
}

const struct fault_kind flip_kind = {
	.prepare = flip_prepare,
	.release = flip_release,
	.apply = flip_apply,
	.show = flip_show,
};
