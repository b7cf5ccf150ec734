/* SPDX-License-Identifier: Apache-2.0 */
/* The disk of the file system, and its superblock. */
#ifndef DEVICE_H
#define DEVICE_H

#include <stdbool.h>
#include <stdint.h>

#include "rio_registry.h"

/* What is used of an ext4 superblock. */
struct superblock {
	bool valid;		/* ext4 with blocks of RIO_PAGE_SIZE; else the rest is 0 */
	uint8_t uuid[16];
	uint32_t made;		/* when, in seconds: what no tool changes later */
	uint32_t mounted;	/* when it was last */
	uint32_t mounts;	/* since it was checked */
};

/* Where a superblock lies in the first block of a file system, in bytes. */
#define SUPERBLOCK_OFFSET 1024
/* The first block of the second group, which has a backup: mke2fs(8), -O sparse_super. */
#define BACKUP_BLOCK (8 * RIO_PAGE_SIZE)

struct device {
	int fd;
	uint64_t blocks;	/* of RIO_PAGE_SIZE bytes */
	struct superblock superblock;
	struct superblock backup;	/* in BACKUP_BLOCK */
};

/* Opens a device or an image; 0, or -errno with a line on stderr. */
int device_open(struct device *device, const char *path, bool writable);

/* The size in bytes of a block device or file; -1 with errno. */
int device_size(int fd, uint64_t *size);

/* A little-endian number, wherever it lies. */
uint32_t number_at(const uint8_t *at);

/* Reads a superblock, of 1024 bytes. */
struct superblock superblock_read(const uint8_t *sb);

#endif
