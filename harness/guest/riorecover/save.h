/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Old memory saved on a disk before recovery writes anything, as in the paper: what
 * recovery needs is then there even if memory does not survive the recovery.
 *
 * In pages of RIO_PAGE_SIZE: a header, a table of addresses and checksums, the contents.
 * The header is written last, and is 0 while anything else is; it holds only as long as
 * its whole page does, so that mkswap, too, ends a save.
 */
#ifndef SAVE_H
#define SAVE_H

#include <linux/types.h>
#include <stdbool.h>
#include <stdint.h>

#include "memory.h"
#include "registry.h"

#define SAVE_MAGIC	0x455641534f4952ULL	/* "RIOSAVE" */
#define SAVE_VERSION	1

struct save_header {
	__le64 magic;
	__le32 version;
	__le32 table_crc;
	__le64 boot_id;		/* of the registry that was saved */
	__le64 nr_pages;	/* in the table */
	__u8 uuid[16];		/* of the file system whose pages they are */
	__u8 zero[RIO_PAGE_SIZE - 52];
	__le32 crc;		/* of all the above, from seed 0 */
};

/* One page; the table is sorted by address. */
struct save_entry {
	__le64 address;		/* physical */
	__le32 crc;		/* of the content, from seed 0 */
	__le32 zero;
};

/* A save as memory: pages that were not saved, or whose checksums fail, are not there. */
struct save {
	struct memory memory;	/* first, so that one is found from the other */
	struct save_header header;
	struct save_entry *table;
	uint64_t nr_pages;
	uint64_t refused;	/* pages whose checksums fail */
	uint8_t page[RIO_PAGE_SIZE];
};

/* What became of saving, for the report. */
struct save_result {
	uint64_t pages, bytes;
	char error[128];	/* empty: all is saved */
};

/* Opens a save of that file system; false if there is none that is whole. */
bool save_open(struct save *save, const char *path, const uint8_t uuid[16]);
void save_close(struct save *save);

/*
 * Saves what a recovery of the registry's pages needs; one that is there already is
 * kept. What hinders it is said on stderr and in the result.
 */
void save_write(const char *path, const struct registry *registry, struct memory *memory,
		const uint8_t uuid[16], struct save_result *result);

/* All of it is on disk: ends a save, if there is one; 0, or -errno with a line on stderr. */
int save_forget(const char *path);

#endif
