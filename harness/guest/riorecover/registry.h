/* SPDX-License-Identifier: Apache-2.0 */
/* The registry is untrusted input: everything in it is checked before use. */
#ifndef REGISTRY_H
#define REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "memory.h"
#include "rio_registry.h"

enum registry_verdict {
	REGISTRY_VALID,
	REGISTRY_NONE,		/* never written, or recovered already */
	REGISTRY_DAMAGED,	/* something is there, but no copy of the header is valid */
};

/* An entry that passed every check that needs no file system. */
struct page {
	uint64_t address;	/* physical */
	uint64_t index;		/* page of the file, or block of the device */
	uint32_t ino;		/* 0: metadata */
	uint32_t generation;
};

struct registry_counts {
	uint64_t pairs, free, clean;
	uint64_t dirty_data, dirty_metadata;
	uint64_t shadowed;	/* metadata in the middle of a change: restored from its shadow */
	uint64_t pending;	/* the same, but the disk has the old version */
	uint64_t rejected;	/* something is there, but neither copy is valid */
	uint64_t senseless;	/* the copy is valid, but no file system has such a page */
	uint64_t fallback;	/* the older copy was used, because the newer is not valid */
	uint64_t foreign;	/* of another file system than the one recovered */
	uint64_t unreadable;	/* the page cannot be mapped */
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

struct registry {
	struct rio_header header;
	uint32_t pending[RIO_MAX_PENDING];	/* operations that had not completed */
	int nr_pending;
	uint64_t start;
	struct page *pages;	/* pages to restore; metadata first, then by ino and index */
	uint64_t nr_pages;
	struct registry_counts counts;
	struct checksum_counts checksums;
};

/* Opens the registry in size bytes at start; reports errors on stderr. */
enum registry_verdict registry_open(struct registry *registry,
				    struct memory *memory, uint64_t start,
				    uint64_t size);

/* The device number the crashed kernel had for this file system, 0 if none. */
uint32_t registry_find_fs(const struct registry *registry,
			  const uint8_t uuid[16]);

/* Collect the dirty pages of one device number; 0 or -ENOMEM. */
int registry_collect(struct registry *registry, struct memory *memory,
		     uint32_t dev, uint64_t device_blocks);

/* Is there a valid header that says that everything is on disk? */
bool registry_is_recovered(const struct registry *registry);

/* Marks the registry as recovered: the next start has nothing to do. */
int registry_mark_recovered(struct registry *registry, struct memory *memory);

void registry_close(struct registry *registry);

#endif
