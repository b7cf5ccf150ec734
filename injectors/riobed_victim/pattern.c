// SPDX-License-Identifier: GPL-2.0-only
#include <linux/seq_file.h>

#include "pattern.h"

void show_changes(struct seq_file *s, const u8 *at, size_t size)
{
	for (; size--; at++)
		if (*at != PATTERN)
			seq_printf(s, "%lx %02x\n", (unsigned long)at, *at ^ PATTERN);
}
