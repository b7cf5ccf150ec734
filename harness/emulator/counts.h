/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of executions, by number. The emulator must run all processors in one thread. */
#ifndef COUNTS_H
#define COUNTS_H

#include <stdbool.h>
#include <stdlib.h>

#include "qemu_plugin.h"

#if QEMU_PLUGIN_VERSION == 1

static uint64_t *counts;

static inline bool make_counts(size_t nr)
{
	counts = calloc(nr, sizeof(*counts));
	return counts;
}

/* Let each execution of an instruction add 1 to a count. */
static inline void count_executions(struct qemu_plugin_insn *insn, size_t number)
{
	qemu_plugin_register_vcpu_insn_exec_inline(insn, QEMU_PLUGIN_INLINE_ADD_U64, &counts[number], 1);
}

static inline uint64_t count_of(size_t number)
{
	return counts[number];
}

#else

/* QEMU keeps them for each processor apart. */
static struct qemu_plugin_scoreboard *counts;

static inline qemu_plugin_u64 count_at(size_t number)
{
	return (qemu_plugin_u64){.score = counts, .offset = number * sizeof(uint64_t)};
}

static inline bool make_counts(size_t nr)
{
	counts = qemu_plugin_scoreboard_new(nr * sizeof(uint64_t));
	return counts;
}

static inline void count_executions(struct qemu_plugin_insn *insn, size_t number)
{
	qemu_plugin_register_vcpu_insn_exec_inline_per_vcpu(insn, QEMU_PLUGIN_INLINE_ADD_U64, count_at(number), 1);
}

static inline uint64_t count_of(size_t number)
{
	return qemu_plugin_u64_sum(count_at(number));
}

#endif

#endif
