/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An operation of recovery's own in the operation log: until it ends, the next recovery puts back what the metadata of
 * a file was before its data was restored.
 */
#ifndef UNDO_H
#define UNDO_H

#include <stdbool.h>
#include <stdint.h>

#include "memory.h"
#include "registry.h"

/* The most pages of the log that an operation may take. */
#define UNDO_PAGES	512

struct undo_log {
	const struct registry *registry;
	struct memory *memory;
	uint32_t dev;
	uint32_t operation;	/* number of the last one */
	uint32_t pages[UNDO_PAGES], nr_pages;	/* its own */
	uint32_t first_used, used;	/* bytes of records in the first and in the last one */
};

void undo_init(struct undo_log *undo, const struct registry *registry, struct memory *memory, uint32_t dev);

/* Begins an operation, which counts from undo_commit() on. */
void undo_begin(struct undo_log *undo);

/* Records bytes of a block; offset and length are multiples of 8. False if there is no room in the log. */
bool undo_record(struct undo_log *undo, uint64_t block, uint32_t offset, const void *bytes, uint32_t length);
void undo_commit(struct undo_log *undo);

/* All of it is on the disk, or it was not committed. */
void undo_end(struct undo_log *undo);

#endif
