/* SPDX-License-Identifier: GPL-2.0-only WITH Linux-syscall-note */
/*
 * Rio: format of the registry, the table of the page cache that survives a
 * reset. The kernel writes it, a recovery program reads it from the memory of
 * the crashed kernel, so this is the contract between the two.
 *
 * The first page holds two copies of the header, the rest is an array with one
 * struct rio_pair for each page frame from rio_header.first_pfn on. Both are
 * kept twice, and an update writes first one copy and then the other, so that
 * a crash in the middle of it leaves one whole. A copy counts only if its
 * checksum is right; of two that count, the one with the later sequence number
 * (in serial-number arithmetic) holds.
 *
 * All numbers are little endian. Checksums are CRC32C (polynomial 0x1EDC6F41,
 * reflected) without final inversion.
 */
#ifndef _UAPI_LINUX_RIO_REGISTRY_H
#define _UAPI_LINUX_RIO_REGISTRY_H

#include <linux/types.h>

#define RIO_MAGIC		0x4745524f4952ULL	/* "RIOREG" */
#define RIO_VERSION		2
#define RIO_PAGE_SIZE		4096
#define RIO_HEADER_STRIDE	2048	/* from the first header copy to the second */
#define RIO_MAX_FS		4

/* In rio_header.flags; a reader that does not know a flag must refuse the registry. */
#define RIO_CHECKSUMS	0x1	/* rio_entry.data_crc is kept */

/*
 * What a page of the page cache holds: rio_entry.state is one of these and
 * flags. Bits that are neither are 0.
 */
enum rio_state {
	RIO_FREE	= 0,	/* nothing of ours */
	RIO_CLEAN	= 1,	/* the same as on disk */
	RIO_DIRTY	= 2,	/* newer than on disk */
	RIO_SHADOWED	= 3,	/* newer than on disk; its shadow is to be restored */
};

#define RIO_STATE_MASK	0x0f
#define RIO_METADATA	0x40	/* a block of the device, not of a file */
#define RIO_CHANGING	0x80	/* somebody may be changing the page: data_crc says nothing */

/*
 * A block of metadata changes as a whole or not at all. Before a dirty one is
 * changed, it is copied to a page of its own, the shadow, and its entry becomes
 *
 *	SHADOWED | METADATA, with the shadow's page frame as ino and its checksum
 *
 * and at the end of the change DIRTY | METADATA with the new checksum. A clean
 * block needs no shadow, the disk has the old version; it stays CLEAN | CHANGING
 * until the change ends.
 *
 * An operation that changes several blocks completes all of them at once. At its
 * end it puts its number into a free place of the table of pending operations,
 * writes the entries of all its blocks with the number as generation and with
 * the shadow, if there is one, still as ino, and takes the number out of the
 * table again: a single store of 8 bytes. As long as the number stands in the
 * table these entries do not count: the shadow is to be restored, and a block
 * without a shadow is as the disk has it. Later ino and generation mean nothing.
 */

/* One file system whose cache is listed. */
struct rio_fs {
	__le32 dev;		/* device number in the crashed kernel, 0: free */
	__le32 flags;		/* none yet */
	__u8 uuid[16];		/* of the file system: what tells disks apart */
};

enum rio_phase {
	RIO_ACTIVE	= 1,	/* the cache is in use: recover it */
	RIO_RECOVERED	= 2,	/* all of it is on disk again: do nothing */
};

struct rio_header {
	__le64 magic;
	__le32 version;
	__le32 seq;
	__le64 boot_id;		/* random; part of every entry's checksum */
	__le64 start;		/* physical address of this header */
	__le64 size;		/* of header page and entries, in bytes */
	__le64 first_pfn;	/* page frame of the first pair */
	__le64 nr_pairs;
	__le32 phase;		/* enum rio_phase */
	__le32 nr_fs;		/* entries of fs[], free ones included */
	struct rio_fs fs[RIO_MAX_FS];
	__le32 flags;		/* RIO_CHECKSUMS */
	__le32 crc;		/* of all the above, from seed 0 */
};

/*
 * One state of one page. For file data index is the page's number in the file.
 * For a block of metadata it is the number of the block on the device in units of
 * RIO_PAGE_SIZE, which is its disk address; ino and generation are the shadow and
 * the operation of the last change, see above, or 0.
 *
 * data_crc is of the whole page, from seed 0, whatever bytes says; if the page is
 * SHADOWED, of its shadow. It counts only with RIO_CHECKSUMS in the header and
 * without RIO_CHANGING in state.
 */
struct rio_entry {
	__le32 ino;
	__le32 generation;
	__le64 index;
	__le32 dev;
	__le16 bytes;		/* how much of the page is inside the file */
	__u8 state;		/* enum rio_state, RIO_METADATA, ... */
	__u8 seq;
	__le32 data_crc;	/* of the page's content */
	__le32 crc;		/* of all the above, from rio_entry_seed() */
};

struct rio_pair {
	struct rio_entry copy[2];
};

/* An operation whose entries do not count yet; the table lies in the first page. */
struct rio_pending {
	__le32 operation;	/* 0: none */
	__le32 inverted;	/* ~operation; if it is not, there is none */
};

#define RIO_PENDING_OFFSET	1024
#define RIO_MAX_PENDING		128

#endif /* _UAPI_LINUX_RIO_REGISTRY_H */
