/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A line of text that is assembled before it is written. It calls nothing of
 * the kernel under test, so it works in any context.
 */
#ifndef RIOBED_LINE_H
#define RIOBED_LINE_H

#include <linux/bitops.h>
#include <linux/processor.h>
#include <linux/types.h>

#define NAME_MAX_SHOWN	40

struct line {
	unsigned int len;
	char text[192];
};

static __always_inline void put_char(struct line *line, char c)
{
	if (line->len < sizeof(line->text))
		line->text[line->len++] = c;
}

/* Makes a name one word: names of caches and tasks may contain any character. */
static __always_inline void put_name(struct line *line, const char *name)
{
	unsigned int i;

	put_char(line, ' ');
	for (i = 0; i < NAME_MAX_SHOWN && name[i]; i++)
		put_char(line, name[i] > ' ' && name[i] <= '~' ? name[i] : '_');
	if (!i)
		put_char(line, '_');
}

static __always_inline void put_digits(struct line *line, u64 value, unsigned int base)
{
	char digits[20];
	int n = 0;

	do {
		digits[n++] = "0123456789abcdef"[value % base];
		value /= base;
	} while (value);
	put_char(line, ' ');
	while (n)
		put_char(line, digits[--n]);
}

static __always_inline void put_number(struct line *line, u64 value)
{
	put_digits(line, value, 10);
}

static __always_inline void put_address(struct line *line, unsigned long address)
{
	put_digits(line, address, 16);
}

/*
 * Lines of several CPUs must not mix. A CPU that died while writing must not
 * stop the others, so after a while they continue without the lock. Interrupts
 * are off, because an interrupt may write another line.
 */
static __always_inline void line_lock(unsigned long *busy)
{
	unsigned int tries;

	for (tries = 0; tries < 1000000; tries++) {
		if (!test_and_set_bit_lock(0, busy))
			break;
		cpu_relax();
	}
}

static __always_inline void line_unlock(unsigned long *busy)
{
	clear_bit_unlock(0, busy);
}

#endif
