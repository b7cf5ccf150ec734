/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The parts of the injector.
 *
 * Once faults are in place, no function of the kernel can be trusted, and
 * any instruction of it may hold a breakpoint of ours. What runs in a trap or
 * writes evidence therefore calls nothing outside this module but
 * ktime_get_mono_fast_ns().
 */
#ifndef RIOBED_INJECT_H
#define RIOBED_INJECT_H

#include <linux/types.h>

#include "parse.h"

struct seq_file;

#define INJECT_MAX	1024		/* commands in a batch */

/* evidence.c: one line each to the debug console, safe in any context */
void evidence_injected(unsigned int id, u64 ns);
void evidence_activated(unsigned int id);
void evidence_overrun(unsigned int id, const char *routine, unsigned long len,
		      unsigned int extra);

/*
 * text.c: changed instructions. prepare checks all of them and may be undone
 * by release; apply cannot fail. apply runs with interrupts off on all CPUs.
 */
int text_prepare(const struct inject_command *cmds, unsigned int count);
void text_release(void);
void text_apply(void);
void text_show(struct seq_file *s);
int text_init(void);
void text_exit(void);

/* copy.c: lengthened copies; the same life as text.c */
int copy_prepare(const struct inject_command *cmds, unsigned int count);
void copy_release(void);
void copy_apply(void);
void copy_show(struct seq_file *s);
void copy_ignore_current(bool ignore);	/* the injector's own copies */

#endif
