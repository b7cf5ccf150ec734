/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hooks on functions of the kernel by the function tracer, the cheapest way to
 * see every call of a hot function. A hook may send its call elsewhere by
 * setting the instruction pointer.
 */
#ifndef RIOBED_INJECT_HOOKS_H
#define RIOBED_INJECT_HOOKS_H

#include <linux/ftrace.h>

struct hook {
	const char *name;
	void *function;
};

/* The hooked function whose call instruction to the tracer lies at ip. */
const struct hook *hook_at(const struct hook *hooks, unsigned int count, unsigned long ip);

int hooks_register(struct ftrace_ops *ops, const struct hook *hooks, unsigned int count);
void hooks_unregister(struct ftrace_ops *ops);

/* Where calls are sent to, *_stub.S; they are no functions for C. */
void allocation_caught(void);
void lock_skipped(void);
void lock_skipped_flags(void);

struct early_free;
void allocation_made(struct early_free *early, void *block);

#endif
