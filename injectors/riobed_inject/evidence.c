// SPDX-License-Identifier: GPL-2.0-only
/*
 * Evidence leaves the guest byte by byte through an I/O port (QEMU's
 * isa-debugcon), so it needs nothing of the kernel under test:
 *
 *	R COUNT NS LOG		so many faults are loaded and wait for their moment
 *	I ID NS			the fault is in place
 *	A ID NS			it was executed or used, or is about to happen
 *	W ID NS			the flipped byte was overwritten before anybody read it
 *	H ID KIND NAME SIZE OFFSET BIT ADDR	which object of the heap was hit
 *	S ID TASK PID OFFSET BIT ADDR		whose stack was hit, OFFSET down from its top
 *	F ID ROUTINE CACHE SIZE ADDR LIVE	which block is freed; LIVE 0: it was free
 *	O ID ROUTINE DIRECTION LEN EXTRA TO CALLER	which copy was lengthened, and who called it
 *	L ID PROCEDURE CALLER	which procedure of a lock does nothing, and who called it
 *
 * NS is ktime_get_mono_fast_ns(); LOG is the same moment by the clock of the
 * kernel's log, which has another start. ADDR, TO and CALLER are hexadecimal. A
 * line is assembled first, then written while no other CPU writes.
 */
#include <linux/io.h>
#include <linux/irqflags.h>
#include <linux/log2.h>
#include <linux/module.h>
#include <linux/sched/clock.h>
#include <linux/timekeeping.h>

#include "inject.h"
#include "line.h"

static unsigned short evidence_port = 0x402;
module_param(evidence_port, ushort, 0444);
MODULE_PARM_DESC(evidence_port, "I/O port of the debug console");

/* The loop calls nothing, so none of our traps can come between two bytes. */
static __always_inline void write_line(struct line *line)
{
	static unsigned long busy;
	unsigned long flags;
	unsigned int i;

	put_char(line, '\n');
	raw_local_irq_save(flags);
	line_lock(&busy);
	for (i = 0; i < line->len; i++)
		outb(line->text[i], evidence_port);
	line_unlock(&busy);
	raw_local_irq_restore(flags);
}

static __always_inline void begin(struct line *line, char kind, unsigned int id)
{
	line->len = 0;
	put_char(line, kind);
	put_number(line, id);
}

static __always_inline void write_time(char kind, unsigned int id, u64 ns)
{
	struct line line;

	begin(&line, kind, id);
	put_number(&line, ns);
	write_line(&line);
}

void evidence_ready(unsigned int count)
{
	struct line line;

	begin(&line, 'R', count);
	put_number(&line, ktime_get_mono_fast_ns());
	put_number(&line, local_clock());
	write_line(&line);
}

void evidence_injected(unsigned int id, u64 ns)
{
	write_time('I', id, ns);
}

void evidence_activated(unsigned int id)
{
	write_time('A', id, ktime_get_mono_fast_ns());
}

void evidence_overwritten(unsigned int id)
{
	write_time('W', id, ktime_get_mono_fast_ns());
}

void evidence_flip(const struct inject_command *cmd, const struct flip_target *target, u8 mask)
{
	struct line line;

	begin(&line, cmd->kind == INJECT_HEAP ? 'H' : 'S', cmd->id);
	if (cmd->kind == INJECT_HEAP)
		put_name(&line, inject_heap_kinds[target->kind]);
	put_name(&line, target->name);
	put_number(&line, target->number);
	put_number(&line, target->offset);
	put_number(&line, ilog2(mask));
	put_address(&line, (unsigned long)target->at);
	write_line(&line);
}

void evidence_free(unsigned int id, const char *routine, const char *cache,
		   unsigned long size, const void *block, bool live)
{
	struct line line;

	begin(&line, 'F', id);
	put_name(&line, routine);
	put_name(&line, cache);
	put_number(&line, size);
	put_address(&line, (unsigned long)block);
	put_number(&line, live);
	write_line(&line);
}

void evidence_overrun(unsigned int id, const struct overrun *overrun)
{
	struct line line;

	begin(&line, 'O', id);
	put_name(&line, overrun->routine);
	put_name(&line, overrun->direction);
	put_number(&line, overrun->length);
	put_number(&line, overrun->extra);
	put_address(&line, overrun->to);
	put_address(&line, overrun->caller);
	write_line(&line);
}

void evidence_lock(unsigned int id, const char *procedure, unsigned long caller)
{
	struct line line;

	begin(&line, 'L', id);
	put_name(&line, procedure);
	put_address(&line, caller);
	write_line(&line);
}
