/* SPDX-License-Identifier: Apache-2.0 */
/* The registry's entries: which pages of memory are to be restored, and what was found of the others. */
#ifndef ENTRIES_H
#define ENTRIES_H

#include <stdbool.h>
#include <stdint.h>

#include "memory.h"
#include "registry.h"

/* A dirty page that is to be restored. Perhaps it cannot be read. */
struct page {
	uint64_t address;	/* physical */
	uint64_t index;		/* page of the file, or block of the device */
	uint32_t ino;		/* 0: metadata */
	uint32_t generation;
};

/* Each entry is counted once: all but the last three add up to `entries`. */
struct entry_counts {
	uint64_t entries, free, clean;
	uint64_t dirty_data, dirty_metadata;
	uint64_t rejected;	/* word or identity is damaged */
	uint64_t inconsistent;	/* undamaged, but no file system has such a page */
	uint64_t foreign;	/* of another file system than the one recovered */
	uint64_t unreadable;	/* the entry, or the dirty page it lists, cannot be read */
	/* In addition: */
	uint64_t duplicates;	/* dirty pages for a place that another dirty page has, too */
	uint64_t behind;	/* inconsistent ones that are about blocks behind the device */
};

/* A listed page whose content does not match its checksum. */
struct mismatch {
	uint64_t index;		/* as in struct page */
	uint32_t ino;
	bool dirty, metadata;
};

/* At most this many are listed; all are counted. */
#define MAX_MISMATCHES 64

/*
 * Counts of readable listed pages, including clean ones, by the result of their checksums;
 * all 0 if the crashed kernel kept none. They do not affect what is restored.
 */
struct checksum_counts {
	uint64_t intact;
	uint64_t corrupt;
	uint64_t changing;	/* somebody may have been changing it: cannot tell */
	struct mismatch mismatches[MAX_MISMATCHES];
};

/*
 * Sorted by place, which is ino, generation and index, so metadata comes first. Of several pages
 * for one place that with the highest address is last, and so is what remains of them.
 */
struct entries {
	struct page *pages;
	uint64_t nr_pages;
	struct entry_counts counts;
	struct checksum_counts checksums;
};

/* Reads the entries of one device number; 0 or -ENOMEM. */
int entries_read(struct entries *entries, const struct registry *registry, struct memory *memory,
		 uint32_t dev, uint64_t device_blocks);
void entries_close(struct entries *entries);

/* A dirty page that is listed for that block of the device; NULL if there is none. */
const struct page *entries_find_block(const struct entries *entries, uint64_t block);

#endif
