/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A save of old memory on a disk, written before recovery writes anything else, as in the
 * paper. Recovery then has what it needs even if memory does not survive the recovery.
 *
 * Layout in pages of RIO_PAGE_SIZE: a header, a table of addresses and checksums, the
 * contents. The header is written last, and is 0 while anything else is written. It is
 * valid only if its whole page is, so mkswap also invalidates a save.
 */
#ifndef SAVE_H
#define SAVE_H

#include <linux/types.h>
#include <stdbool.h>
#include <stdint.h>

#include "cache.h"
#include "memory.h"

#define SAVE_MAGIC	0x455641534f4952ULL	/* "RIOSAVE" */
#define SAVE_VERSION	1

struct save_header {
	__le64 magic;
	__le32 version;
	__le32 table_crc;
	__le64 boot_id;		/* of the registry that was saved */
	__le64 nr_pages;	/* in the table */
	__u8 uuid[16];		/* of the file system whose pages they are, as the registry has it */
	__u8 zero[RIO_PAGE_SIZE - 52];
	__le32 crc;		/* of all the above, from seed 0 */
};

/* One page; the table is sorted by address. */
struct save_entry {
	__le64 address;		/* physical */
	__le32 crc;		/* of the content, from seed 0 */
	__le32 zero;
};

/* A save used as memory; pages that were not saved, or whose checksums fail, are missing. */
struct save {
	struct memory memory;	/* first, so that one is found from the other */
	struct save_header header;
	struct save_entry *table;
	uint64_t nr_pages;
	uint64_t refused;	/* pages whose checksums fail */
	uint8_t page[RIO_PAGE_SIZE];
};

/* The result of saving, for the report. */
struct save_result {
	uint64_t pages, bytes;
	char error[128];	/* empty: all is saved */
};

/* Opens a save; false if there is no valid one. Whose pages they are says the registry in it. */
bool save_open(struct save *save, const char *path);
void save_close(struct save *save);

/*
 * Saves what a recovery from the cache needs; an existing save is kept. Errors are reported on
 * stderr and in the result.
 */
void save_write(const char *path, const struct cache *cache, struct memory *memory,
		struct save_result *result);

/* Invalidates a save, if there is one; 0, or -errno with a line on stderr. */
int save_forget(const char *path);

#endif
