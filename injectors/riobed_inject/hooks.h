/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Hooks on kernel functions through the function tracer, the cheapest way to
 * see every call of a hot function. A hook can redirect the call by setting the
 * instruction pointer.
 */
#ifndef RIOBED_INJECT_HOOKS_H
#define RIOBED_INJECT_HOOKS_H

#include <linux/ftrace.h>

struct hook {
	const char *name;
	void *function;
};

/* The hooked function whose call of the tracer is at ip. */
const struct hook *hook_at(const struct hook *hooks, unsigned int count, unsigned long ip);

int hooks_register(struct ftrace_ops *ops, const struct hook *hooks, unsigned int count);
void hooks_unregister(struct ftrace_ops *ops);

/* Targets of redirected calls, *_stub.S; C must not call them. */
void allocation_caught(void);
void lock_skipped(void);
void lock_skipped_flags(void);

struct early_free;
void allocation_made(struct early_free *early, void *block);

#endif
