// SPDX-License-Identifier: GPL-2.0-only
/*
 * Evidence leaves the guest byte by byte through an I/O port (QEMU's
 * isa-debugcon), so that it needs nothing of the kernel under test:
 *
 *	I ID NS			the fault is in place
 *	A ID NS			it was executed, or the overrun is about to happen
 *	O ID ROUTINE LEN EXTRA	which copy was lengthened
 *
 * NS is ktime_get_mono_fast_ns(). A line is put together first and written
 * while no other CPU writes.
 */
#include <linux/bitops.h>
#include <linux/io.h>
#include <linux/module.h>
#include <linux/timekeeping.h>

#include "inject.h"

static unsigned short evidence_port = 0x402;
module_param(evidence_port, ushort, 0444);
MODULE_PARM_DESC(evidence_port, "I/O port of the debug console");

struct line {
	unsigned int len;
	char text[128];
};

static __always_inline void put_char(struct line *line, char c)
{
	if (line->len < sizeof(line->text))
		line->text[line->len++] = c;
}

static __always_inline void put_word(struct line *line, const char *word)
{
	while (*word)
		put_char(line, *word++);
}

static __always_inline void put_number(struct line *line, u64 value)
{
	char digits[20];
	int n = 0;

	do {
		digits[n++] = '0' + value % 10;
		value /= 10;
	} while (value);
	put_char(line, ' ');
	while (n)
		put_char(line, digits[--n]);
}

/*
 * A CPU that died while it wrote must not stop the others: after a while they
 * go on without the lock. The loop calls nothing, so that no trap of ours can
 * come in between two bytes.
 */
static __always_inline void write_line(struct line *line)
{
	static unsigned long busy;
	unsigned int tries, i;

	put_char(line, '\n');
	for (tries = 0; tries < 1000000; tries++) {
		if (!test_and_set_bit_lock(0, &busy))
			break;
		cpu_relax();
	}
	for (i = 0; i < line->len; i++)
		outb(line->text[i], evidence_port);
	clear_bit_unlock(0, &busy);
}

void evidence_injected(unsigned int id, u64 ns)
{
	struct line line = { .len = 0 };

	put_char(&line, 'I');
	put_number(&line, id);
	put_number(&line, ns);
	write_line(&line);
}

void evidence_activated(unsigned int id)
{
	u64 ns = ktime_get_mono_fast_ns();
	struct line line = { .len = 0 };

	put_char(&line, 'A');
	put_number(&line, id);
	put_number(&line, ns);
	write_line(&line);
}

void evidence_overrun(unsigned int id, const char *routine, unsigned long len,
		      unsigned int extra)
{
	struct line line = { .len = 0 };

	put_char(&line, 'O');
	put_number(&line, id);
	put_char(&line, ' ');
	put_word(&line, routine);
	put_number(&line, len);
	put_number(&line, extra);
	write_line(&line);
}
