/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Code and memory for faults to hit, whose behaviour with each fault is known:
 * files in debugfs, riobed_victim/. harness/tests/integration/test_fault_victim.py
 * says what is expected.
 */
#ifndef RIOBED_VICTIM_H
#define RIOBED_VICTIM_H

#include <linux/types.h>

struct dentry;
struct seq_file;

#define PATTERN		0x5a	/* of every byte that no fault has hit */

/* Each makes its file in the module's folder. */
void text_create(struct dentry *folder);
void heap_create(struct dentry *folder);
void stack_create(struct dentry *folder);
void allocation_create(struct dentry *folder);
void copies_create(struct dentry *folder);
void locks_create(struct dentry *folder);

/* Write where and how bytes differ from the pattern: ADDRESS XOR, one line each. */
void show_changes(struct seq_file *s, const u8 *at, size_t size);

#endif
