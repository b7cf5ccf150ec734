/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * Rio: format of the registry, the table of the page cache that survives a
 * reset. The kernel writes it, a recovery program reads it from the memory of
 * the crashed kernel, so this is the contract between the two.
 *
 * The first page holds two copies of the header. An array with one struct
 * rio_entry for each page frame follows, and behind it, from rio_header.log_start
 * on, the pages of the operation log.
 *
 * What says whether something counts is one word of 8 bytes, which a single
 * store changes: a crash finds it as before or as after, never in between. The
 * word checks itself. One that is damaged, zeroed for example, was hit by a
 * stray store, for each word is valid from when the registry exists.
 *
 * All numbers are little endian. Checksums are CRC32C (polynomial 0x1EDC6F41,
 * reflected) without final inversion. The seed of a page frame is the checksum,
 * from 0, of rio_header.boot_id and the frame's number, each as 8 bytes: what an
 * earlier kernel left, or what belongs to another page, does not count.
 */
#ifndef _UAPI_LINUX_RIO_REGISTRY_H
#define _UAPI_LINUX_RIO_REGISTRY_H

#include <linux/types.h>

#define RIO_MAGIC		0x4745524f4952ULL	/* "RIOREG" */
#define RIO_VERSION		4
#define RIO_PAGE_SIZE		4096
#define RIO_HEADER_STRIDE	2048	/* from the first header copy to the second */
#define RIO_MAX_FS		4

/* In rio_header.flags; a reader that does not know a flag must refuse the registry. */
#define RIO_CHECKSUMS	0x1	/* words have checksums, and clean pages are listed */

/* In rio_fs.phase. */
enum rio_phase {
	RIO_ACTIVE	= 1,	/* the cache is in use: recover it */
	RIO_RECOVERED	= 2,	/* all of it is on disk again: do nothing */
	RIO_RECOVERING	= 3,	/* its metadata is, and may be newer there: recover data */
};

/*
 * One file system whose cache is listed. A disk whose superblock has a later mtime
 * or a higher mnt_count was mounted by somebody else since, and memory is older.
 */
struct rio_fs {
	__le32 dev;		/* device number in the crashed kernel, 0: free */
	__le32 phase;		/* enum rio_phase; 0 if free */
	__u8 uuid[16];		/* of the file system: what tells disks apart */
	__le32 mtime;		/* of its mount, seconds as in its superblock; 0: not known yet */
	__le32 mnt_count;	/* as in its superblock */
};

/*
 * Kept twice, and an update writes first one copy and then the other. A copy
 * counts only if its checksum is right; of two that count, the one with the later
 * sequence number (in serial-number arithmetic) holds.
 */
struct rio_header {
	__le64 magic;
	__le32 version;
	__le32 seq;
	__le64 boot_id;		/* random */
	__le64 start;		/* physical address of this header */
	__le64 size;		/* of header page, entries and log, in bytes */
	__le64 nr_entries;	/* one for each page frame, from 0 on */
	__le64 log_start;	/* physical address of the first log page */
	__le32 nr_log_pages;
	__le32 nr_fs;		/* entries of fs[], free ones included */
	struct rio_fs fs[RIO_MAX_FS];
	__le32 flags;		/* RIO_CHECKSUMS */
	__le32 crc;		/* of all the above, from seed 0 */
};

/* What a page of the page cache holds: the state in rio_entry.word. */
enum rio_state {
	RIO_FREE	= 0,	/* nothing that is listed; the rest of the entry means nothing */
	RIO_CLEAN	= 1,	/* the same as on disk; only with RIO_CHECKSUMS */
	RIO_DIRTY	= 2,	/* newer than on disk */
};

/*
 * A word, from its lowest bit:
 *
 *	entry		log page
 *	32 data_crc	16 used		bytes of records that count
 *	 8 state	 8 kind		enum rio_log_kind
 *	 8 zero		24 operation	number of the operation
 *	16 check	16 check
 *
 * data_crc is the checksum of the page's content, from 0, with RIO_CHECKSUMS and
 * without RIO_CHANGING; else 0. check is the low half of the checksum of the word
 * as 8 bytes with 0 for check, from the seed of the page frame that the entry is
 * about, or of the log page's own.
 */
#define RIO_WORD_STATE_SHIFT	32
#define RIO_WORD_CHECK_SHIFT	48
#define RIO_STATE_MASK		0x0f
#define RIO_METADATA		0x40	/* a block of the device, not of a file */
#define RIO_CHANGING		0x80	/* somebody may be changing the page: data_crc is 0 */

/*
 * What a page of RAM holds. For file data index is the page's number in the file.
 * For metadata it is the number of the block on the device in units of
 * RIO_PAGE_SIZE, and ino and generation are 0. All but the word is written while
 * the word says RIO_FREE.
 */
struct rio_entry {
	__le64 word;
	__le32 ino;
	__le32 generation;
	__le64 index;
	__le32 dev;
	__le32 crc;		/* of ino to dev, from the page frame's seed */
};

/*
 * The operation log: an operation of the file system changes blocks of metadata
 * all at once or, for a recovery, not at all. Before it changes bytes of a block
 * that its own check does not recompute (e2fsck makes bitmaps and counters anew),
 * it appends what they were to its log, and at its end one store to the word of
 * its first log page drops them all. A recovery puts back what the operations
 * had not dropped, the last record of an operation first, into the block as it is
 * in memory if it is listed as dirty, else into what the disk has.
 *
 * When a second operation is about to change bytes that an open one has recorded,
 * the older record becomes RIO_UNDO_SUPERSEDED: to put it back would undo what the
 * second one may have completed. So records that count never overlap if they
 * belong to different operations.
 */
#define RIO_WORD_KIND_SHIFT	16
#define RIO_WORD_OPERATION_SHIFT 24

enum rio_log_kind {
	RIO_LOG_FREE	= 0,	/* used and operation are 0 */
	RIO_LOG_FIRST	= 1,	/* an operation's first page */
	RIO_LOG_NEXT	= 2,	/* counts if a RIO_UNDO_NEXT of the same operation leads here */
};

struct rio_log_page {
	__le64 word;
	__u8 records[RIO_PAGE_SIZE - 8];
};

enum rio_undo_type {
	RIO_UNDO_BYTES		= 1,	/* the old bytes follow */
	RIO_UNDO_SUPERSEDED	= 2,	/* as RIO_UNDO_BYTES, but not to be put back */
	RIO_UNDO_NEXT		= 3,	/* no bytes; the operation goes on in log page block */
};

/*
 * One record; it begins on a multiple of 8 bytes, and its first 8 bytes are changed
 * by one store. Bytes that do not fit what is left of a log page become two records.
 * The seed of its checksum is that of the log page's operation, as 8 bytes, from the
 * log page's seed: what an earlier operation left there does not count.
 */
struct rio_undo {
	__le32 crc;		/* of the rest, bytes included, from the record's seed */
	__le16 size;		/* of the record with its bytes, a multiple of 8 */
	__u8 type;		/* enum rio_undo_type */
	__u8 zero;
	__le32 dev;
	__le16 offset;		/* of the bytes in the block */
	__le16 length;
	__le64 block;		/* on the device, in units of RIO_PAGE_SIZE */
	__u8 bytes[];
};

#endif /* _UAPI_LINUX_RIO_REGISTRY_H */
