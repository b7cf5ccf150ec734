// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copy overruns: at the drawn call the length of a copy grows, so that the
 * copy routine itself writes behind the end of its destination.
 *
 * Hooked are memcpy(), memmove() and rep_movs_alternative(), which does the
 * copying of all copy_from_user(), copy_to_user() and iov_iter routines after
 * they have checked the length. They count together. Not hooked: copies that
 * the compiler made inline, copies of fixed size (copy_page()), and, on a CPU
 * with FSRM, user copies, which are inline there.
 *
 * Kprobes whose handler changes the length register. Their empty post_handler
 * keeps them from being turned into jumps, behind which a changed ip is lost.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/kprobes.h>
#include <linux/sched.h>
#include <linux/seq_file.h>
#include <linux/slab.h>
#include <linux/sort.h>
#include <linux/string.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>

#include <asm/cpufeature.h>

#include "inject.h"

/* copy_stub.S: rep_movs_alternative() with %rax bytes more than %rcx says */
void copy_user_overrun(void);

static int copy_called(struct kprobe *p, struct pt_regs *regs);
static void keep_unoptimized(struct kprobe *p, struct pt_regs *regs, unsigned long flags) { }

#define COPY_ROUTINE(name) { \
	.symbol_name = name, \
	.pre_handler = copy_called, \
	.post_handler = keep_unoptimized, \
}

enum { MEMCPY, MEMMOVE, USER_COPY, NR_ROUTINES };

static struct kprobe routines[NR_ROUTINES] = {
	[MEMCPY] = COPY_ROUTINE("memcpy"),
	[MEMMOVE] = COPY_ROUTINE("memmove"),
	[USER_COPY] = COPY_ROUTINE("rep_movs_alternative"),
};

struct overrun {
	const struct inject_command *cmd;
	bool done;
};

static struct overrun *overruns;	/* in the order of ID */
static unsigned int nr_overruns;
static unsigned int nr_registered;	/* of routines[], from its start */

static bool armed;
static unsigned int next;		/* overrun that fires next */
static atomic_t calls_left;		/* the call that makes it 0 is lengthened */
static struct task_struct *ignored;

/* Lengthen this very call. Runs in a kprobe: interrupts are off. */
static int lengthen(struct kprobe *p, struct pt_regs *regs)
{
	const struct inject_command *cmd = overruns[next].cmd;
	bool user = p == &routines[USER_COPY];

	overruns[next].done = true;
	evidence_activated(cmd->id);
	evidence_overrun(cmd->id, p->symbol_name, user ? regs->cx : regs->dx, cmd->extra);

	if (++next == nr_overruns)
		armed = false;
	else	/* the stub calls the routine once more, which is not counted */
		atomic_set(&calls_left, overruns[next].cmd->calls + user);

	if (!user) {
		regs->dx += cmd->extra;
		return 0;
	}
	regs->ax = cmd->extra;
	regs->ip = (unsigned long)copy_user_overrun;
	return 1;
}

static int copy_called(struct kprobe *p, struct pt_regs *regs)
{
	if (!READ_ONCE(armed) || READ_ONCE(ignored) == current)
		return 0;
	if (atomic_dec_return(&calls_left))
		return 0;
	return lengthen(p, regs);
}

static int by_id(const void *a, const void *b)
{
	const struct overrun *x = a, *y = b;

	return x->cmd->id < y->cmd->id ? -1 : 1;
}

/* memcpy() and memmove() lie in .noinstr.text and so on the blacklist. */
static int allow_probe(unsigned long function)
{
	int ret = kprobe_allow_ksym(function);

	return ret == -ENOENT ? 0 : ret;	/* taken off before */
}

static int register_routines(void)
{
	unsigned int wanted = boot_cpu_has(X86_FEATURE_FSRM) ? USER_COPY : NR_ROUTINES;
	int ret;

	ret = allow_probe((unsigned long)memcpy);
	if (!ret)
		ret = allow_probe((unsigned long)memmove);
	while (!ret && nr_registered < wanted) {
		ret = register_kprobe(&routines[nr_registered]);
		if (!ret)
			nr_registered++;
	}
	if (ret)
		pr_err("cannot probe the copy routines: error %d\n", ret);
	return ret;
}

int copy_prepare(const struct inject_command *cmds, unsigned int count)
{
	unsigned int i;

	overruns = kvcalloc(count, sizeof(*overruns), GFP_KERNEL);
	if (!overruns)
		return -ENOMEM;
	for (i = 0; i < count; i++)
		if (cmds[i].kind == INJECT_COPY_OVERRUN)
			overruns[nr_overruns++].cmd = &cmds[i];
	if (!nr_overruns)
		return 0;
	sort(overruns, nr_overruns, sizeof(*overruns), by_id, NULL);
	return register_routines();
}

void copy_release(void)
{
	while (nr_registered)
		unregister_kprobe(&routines[--nr_registered]);
	kvfree(overruns);
	overruns = NULL;
	nr_overruns = 0;
}

void copy_apply(void)
{
	unsigned int i;
	u64 ns;

	if (!nr_overruns)
		return;
	ns = ktime_get_mono_fast_ns();
	atomic_set(&calls_left, overruns[0].cmd->calls);
	armed = true;
	for (i = 0; i < nr_overruns; i++)
		evidence_injected(overruns[i].cmd->id, ns);
}

void copy_ignore_current(bool ignore)
{
	WRITE_ONCE(ignored, ignore ? current : NULL);
}

void copy_show(struct seq_file *s)
{
	unsigned int i;

	for (i = 0; i < nr_overruns; i++)
		seq_printf(s, "copy_overrun %u %s\n", overruns[i].cmd->id,
			   overruns[i].done ? "activated" : "armed");
	for (i = 0; i < nr_registered; i++)
		seq_printf(s, "missed %s %lu\n", routines[i].symbol_name, routines[i].nmissed);
}
