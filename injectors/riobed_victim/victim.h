/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Code and memory for faults to hit, with known behaviour for each fault: files in
 * debugfs, riobed_victim/. harness/tests/integration/test_fault_victim.py has the
 * expected results.
 */
#ifndef RIOBED_VICTIM_H
#define RIOBED_VICTIM_H

struct dentry;

/* Each makes its file in the module's folder. */
void text_create(struct dentry *folder);
void heap_create(struct dentry *folder);
void vmalloc_create(struct dentry *folder);
void stack_create(struct dentry *folder);
void allocation_create(struct dentry *folder);
void copies_create(struct dentry *folder);
void locks_create(struct dentry *folder);

#endif
