/* SPDX-License-Identifier: Apache-2.0 */
/* Restores what the registry lists: metadata to the device, data to files. */
#ifndef RESTORE_H
#define RESTORE_H

#include <stdint.h>
#include <sys/types.h>

#include "memory.h"
#include "registry.h"

struct device {
	int fd;
	uint8_t uuid[16];	/* of the ext4 file system on it */
	uint64_t blocks;	/* of RIO_PAGE_SIZE bytes */
};

struct metadata_counts {
	uint64_t written, failed;
};

struct data_counts {
	uint64_t pages, bytes, files;	/* restored */
	uint64_t lost_inodes;		/* pages whose file no longer exists */
	uint64_t beyond_size;		/* pages behind the end of their file */
	uint64_t failed;		/* pages that could not be written */
};

/*
 * Opens a device or an image; 0, or -errno with a line on stderr: -EINVAL when it
 * has no ext4 superblock with blocks of a page.
 */
int device_open(struct device *device, const char *path, bool writable);

/* The size in bytes of a block device or file; -1 with errno. */
int device_size(int fd, uint64_t *size);

/* Write each dirty metadata block to its place on the device and flush it. */
int restore_metadata(const struct registry *registry, struct memory *memory,
		     const struct device *device, struct metadata_counts *counts);

/* Write each dirty page into its file below the mount point and flush it. */
int restore_data(const struct registry *registry, struct memory *memory,
		 const char *mount_point, struct data_counts *counts);

#endif
