// SPDX-License-Identifier: GPL-2.0-only
/*
 * Faults in the kernel's text, and proof that they were executed.
 *
 * Stores go through a second mapping of the page, made for one fault. It is
 * writable only during our own store. Nothing else is ever made writable,
 * neither the text itself nor, as with CR0.WP, every page. text_mutex is not
 * needed: the host leaves out all sites that the kernel itself patches, and
 * every site is checked before it is changed.
 *
 * The activation probe is our own breakpoint on the first byte of the changed
 * instruction. Its first trap removes it, and the changed instruction then runs
 * in place. Kprobes cannot be used: they refuse instructions that they cannot
 * decode, which a bit flip often produces, and otherwise they execute a copy
 * that was taken when the probe was armed.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/highmem.h>
#include <linux/kdebug.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/seq_file.h>
#include <linux/timekeeping.h>
#include <linux/uaccess.h>
#include <linux/vmalloc.h>

#include "inject.h"

#define BREAKPOINT	0xcc

struct text_fault {
	const struct inject_command *cmd;
	unsigned int pages;		/* 2 if the instruction crosses a page */
	u8 *alias;			/* second mapping of its first page */
	pte_t *pte[2];			/* of the second mapping */
	pte_t closed[2];
	pte_t opened[2];
	unsigned long armed;		/* bit 0: the breakpoint is in place */
	unsigned long activated;
};

static struct text_fault *faults;
static unsigned int nr_faults;

static bool in_module(unsigned long addr)
{
	return addr >= MODULES_VADDR && addr < MODULES_END;
}

/* Kernel text: mapped, executable, in the kernel's image or in a module other than this one. */
static bool is_text(unsigned long addr)
{
	unsigned int level;
	pte_t *pte;

	if (addr < __START_KERNEL_map || addr >= MODULES_END || within_module(addr, THIS_MODULE))
		return false;
	pte = lookup_address(addr, &level);
	return pte && (pte_flags(*pte) & (_PAGE_PRESENT | _PAGE_NX)) == _PAGE_PRESENT;
}

static int check(const struct inject_command *cmd)
{
	u8 found[INJECT_INSN_MAX];

	if (!is_text(cmd->addr) || !is_text(cmd->addr + cmd->len - 1)) {
		pr_err("fault %u: %lx is not kernel text\n", cmd->id, cmd->addr);
		return -EFAULT;
	}
	if (copy_from_kernel_nofault(found, (void *)cmd->addr, cmd->len))
		return -EFAULT;
	if (memcmp(found, cmd->old, cmd->len)) {
		pr_err("fault %u: bytes at %lx are %*phN, not %*phN; is this the catalogue's kernel?\n",
		       cmd->id, cmd->addr, cmd->len, found, cmd->len, cmd->old);
		return -EILSEQ;
	}
	return 0;
}

static int map_alias(struct text_fault *fault)
{
	unsigned long first = fault->cmd->addr & PAGE_MASK;
	struct page *pages[2];
	unsigned int i, level;
	void *alias;

	fault->pages = 1 + (offset_in_page(fault->cmd->addr) + fault->cmd->len > PAGE_SIZE);
	for (i = 0; i < fault->pages; i++) {
		void *page = (void *)(first + i * PAGE_SIZE);

		pages[i] = in_module(first) ? vmalloc_to_page(page) : virt_to_page(page);
	}
	alias = vmap(pages, fault->pages, VM_MAP, PAGE_KERNEL_RO);
	if (!alias)
		return -ENOMEM;
	fault->alias = alias;
	for (i = 0; i < fault->pages; i++) {
		fault->pte[i] = lookup_address((unsigned long)alias + i * PAGE_SIZE, &level);
		if (!fault->pte[i] || level != PG_LEVEL_4K)
			return -ENOMEM;
		fault->closed[i] = *fault->pte[i];
		fault->opened[i] = mk_pte(pages[i], PAGE_KERNEL);
	}
	return 0;
}

/* Not a function of the kernel: it might hold one of our faults. */
static __always_inline void set_alias(struct text_fault *fault, const pte_t *ptes)
{
	unsigned int i;

	for (i = 0; i < fault->pages; i++) {
		WRITE_ONCE(*fault->pte[i], ptes[i]);
		asm volatile("invlpg (%0)" : : "r" (fault->alias + i * PAGE_SIZE) : "memory");
	}
}

/* Put the first len bytes of the changed instruction in place, beginning with first. */
static __always_inline void store(struct text_fault *fault, u8 first, unsigned int len)
{
	u8 *to = fault->alias + offset_in_page(fault->cmd->addr);
	unsigned int i;

	set_alias(fault, fault->opened);
	WRITE_ONCE(to[0], first);
	for (i = 1; i < len; i++)
		WRITE_ONCE(to[i], fault->cmd->new[i]);	/* never a memcpy() */
	set_alias(fault, fault->closed);
}

/* The first die notifier; nothing on the way to it is ever probed. */
static int text_trap(struct notifier_block *nb, unsigned long reason, void *data)
{
	struct die_args *args = data;
	unsigned long addr = args->regs->ip - 1;
	struct text_fault *fault;

	if (reason != DIE_INT3 || user_mode(args->regs))
		return NOTIFY_DONE;
	for (fault = faults; fault < faults + nr_faults; fault++)
		if (fault->cmd->addr == addr && fault->cmd->probe)
			break;
	if (fault == faults + nr_faults)
		return NOTIFY_DONE;

	if (test_and_clear_bit(0, &fault->armed)) {
		/* Remove it first: the code that writes evidence may itself be probed. */
		store(fault, fault->cmd->new[0], 1);
		fault->activated = 1;
		evidence_activated(fault->cmd->id);
	} else if (fault->cmd->new[0] == BREAKPOINT) {
		return NOTIFY_DONE;	/* the fault itself is a breakpoint */
	}
	/* Otherwise another CPU got here first: try the instruction again. */
	args->regs->ip = addr;
	return NOTIFY_STOP;
}

static struct notifier_block text_trap_nb = {
	.notifier_call = text_trap,
	.priority = INT_MAX,
};

static int prepare_one(const struct inject_command *cmd)
{
	struct text_fault *fault = &faults[nr_faults];
	int ret = check(cmd);

	if (ret)
		return ret;
	fault->cmd = cmd;
	nr_faults++;	/* from here on text_release() sees it */
	return map_alias(fault);
}

static int text_prepare(const struct inject_command *cmds, unsigned int count)
{
	unsigned int i;
	int ret = 0;

	faults = vzalloc(array_size(count, sizeof(*faults)));	/* none of areas.c */
	if (!faults)
		return -ENOMEM;
	for (i = 0; i < count && !ret; i++)
		if (cmds[i].kind == INJECT_TEXT)
			ret = prepare_one(&cmds[i]);
	return ret;
}

static void text_release(void)
{
	while (nr_faults)
		vunmap(faults[--nr_faults].alias);
	vfree(faults);
	faults = NULL;
}

static void text_apply(void)
{
	u64 ns = ktime_get_mono_fast_ns();
	struct text_fault *fault;

	for (fault = faults; fault < faults + nr_faults; fault++) {
		fault->armed = fault->cmd->probe;
		store(fault, fault->armed ? BREAKPOINT : fault->cmd->new[0], fault->cmd->len);
	}
	for (fault = faults; fault < faults + nr_faults; fault++)
		evidence_injected(fault->cmd->id, ns);
}

static void text_show(struct seq_file *s)
{
	struct text_fault *fault;

	for (fault = faults; fault < faults + nr_faults; fault++)
		seq_printf(s, "text %u %s\n", fault->cmd->id,
			   !fault->cmd->probe ? "unprobed" :
			   fault->activated ? "activated" : "armed");
}

const struct fault_kind text_kind = {
	.prepare = text_prepare,
	.release = text_release,
	.apply = text_apply,
	.show = text_show,
};

int text_init(void)
{
	return register_die_notifier(&text_trap_nb);
}

void text_exit(void)
{
	unregister_die_notifier(&text_trap_nb);
}
