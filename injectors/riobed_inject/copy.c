// SPDX-License-Identifier: GPL-2.0-only
/*
 * Copy overruns: at the drawn call the length of a copy grows, so the copy
 * routine itself writes past the end of its destination.
 *
 * The hooked routines are memcpy(), memmove() and rep_movs_alternative(), which
 * copies for copy_from_user(), copy_to_user() and the iov_iter routines after
 * they have checked the length. Persistent memory is written by two of its own,
 * __memcpy_flushcache() and copy_to_nontemporal(). All count together, but for copies
 * to user space: their overrun hurts the user's memory, not the kernel's. Not hooked
 * are copies that the compiler made inline, copies of fixed size (copy_page()),
 * and, on a CPU with FSRM, user copies, which are inline there.
 *
 * The hooks are kprobes whose handler changes the length register. An empty
 * post_handler keeps them from being turned into jumps, which would lose a
 * changed ip.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kprobes.h>
#include <linux/seq_file.h>
#include <linux/string.h>
#include <linux/uaccess.h>

#include <asm/cpufeature.h>

#include "calls.h"

/* copy_stub.S: the routines that say how much they did not copy, with %rax bytes more */
void copy_user_overrun(void);
void copy_nontemporal_overrun(void);

static int copy_called(struct kprobe *p, struct pt_regs *regs);
static void keep_unoptimized(struct kprobe *p, struct pt_regs *regs, unsigned long flags) { }

#define COPY_ROUTINE(name) { \
	.symbol_name = name, \
	.pre_handler = copy_called, \
	.post_handler = keep_unoptimized, \
}

enum { MEMCPY, MEMMOVE, MEMCPY_FLUSHCACHE, NONTEMPORAL, USER_COPY, NR_ROUTINES };

static struct kprobe routines[NR_ROUTINES] = {
	[MEMCPY] = COPY_ROUTINE("memcpy"),
	[MEMMOVE] = COPY_ROUTINE("memmove"),
	[MEMCPY_FLUSHCACHE] = COPY_ROUTINE("__memcpy_flushcache"),
	[NONTEMPORAL] = COPY_ROUTINE("copy_to_nontemporal"),
	[USER_COPY] = COPY_ROUTINE("rep_movs_alternative"),
};

static void (*const stubs[NR_ROUTINES])(void) = {
	[NONTEMPORAL] = copy_nontemporal_overrun,
	[USER_COPY] = copy_user_overrun,
};

static struct call_faults overruns = {
	.kind = INJECT_COPY_OVERRUN,
	.name = "copy_overrun",
};

static unsigned int nr_registered;	/* of routines[], from its start */

/* User space is below the kernel's half of the addresses. */
static bool to_user(const struct pt_regs *regs)
{
	return regs->di < TASK_SIZE_MAX;
}

static const char *direction(const struct pt_regs *regs)
{
	return regs->si < TASK_SIZE_MAX ? "from_user" : "in_kernel";
}

/* Lengthen this very call. Runs in a kprobe: interrupts are off. */
static int lengthen(struct kprobe *p, struct pt_regs *regs)
{
	void (*stub)(void) = stubs[p - routines];
	/* the stub calls the routine once more */
	const struct inject_command *cmd = overruns.cmds[calls_take(&overruns, !!stub)];

	evidence_activated(cmd->id);
	evidence_overrun(cmd->id, &(struct overrun) {
		.routine = p->symbol_name,
		.direction = direction(regs),
		.length = p == &routines[USER_COPY] ? regs->cx : regs->dx,
		.extra = cmd->extra,
		.to = regs->di,
		.caller = *(unsigned long *)regs->sp,
	});
	if (!stub) {
		regs->dx += cmd->extra;
		return 0;
	}
	regs->ax = cmd->extra;
	regs->ip = (unsigned long)stub;
	return 1;
}

static int copy_called(struct kprobe *p, struct pt_regs *regs)
{
	return !to_user(regs) && calls_due(&overruns) ? lengthen(p, regs) : 0;
}

/* Added by a patch of our series; other faults do not need it. */
extern int kprobe_allow_ksym(unsigned long entry) __weak;

/* memcpy() and memmove() are in .noinstr.text and therefore on the blacklist. */
static int allow_probe(unsigned long function)
{
	int ret = kprobe_allow_ksym ? kprobe_allow_ksym(function) : -EOPNOTSUPP;

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

static int copy_prepare(const struct inject_command *cmds, unsigned int count)
{
	calls_prepare(&overruns, cmds, count);
	return overruns.count ? register_routines() : 0;
}

static void copy_release(void)
{
	while (nr_registered)
		unregister_kprobe(&routines[--nr_registered]);
	overruns.count = 0;
}

static void copy_apply(void)
{
	calls_apply(&overruns);
}

static void copy_show(struct seq_file *s)
{
	unsigned int i;

	calls_show(&overruns, s);
	for (i = 0; i < nr_registered; i++)
		seq_printf(s, "missed %s %lu\n", routines[i].symbol_name, routines[i].nmissed);
}

const struct fault_kind copy_kind = {
	.prepare = copy_prepare,
	.release = copy_release,
	.apply = copy_apply,
	.show = copy_show,
};
