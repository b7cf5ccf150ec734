/* SPDX-License-Identifier: GPL-2.0-only */
/* Memory for faults to hit, all of it one byte. */
#ifndef RIOBED_VICTIM_PATTERN_H
#define RIOBED_VICTIM_PATTERN_H

#include <linux/types.h>

struct seq_file;

#define PATTERN		0x5a	/* of every byte that no fault has hit */

/* Write where and how bytes differ from the pattern: ADDRESS XOR, one line each. */
void show_changes(struct seq_file *s, const u8 *at, size_t size);

#endif
