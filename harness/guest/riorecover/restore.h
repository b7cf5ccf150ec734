/* SPDX-License-Identifier: Apache-2.0 */
/* Restores what memory has: metadata to the device, data to files. */
#ifndef RESTORE_H
#define RESTORE_H

#include <stdint.h>

#include "cache.h"
#include "device.h"
#include "memory.h"
#include "undo.h"

struct metadata_counts {
	uint64_t written, failed;	/* blocks */
};

struct data_counts {
	uint64_t pages, bytes, files;	/* restored */
	uint64_t lost_inodes;		/* pages whose file no longer exists */
	uint64_t beyond_size;		/* pages behind the end of their file */
	uint64_t failed;		/* pages that could not be written */
};

/*
 * Writes each dirty metadata block, and each block of which something is undone, to its place on
 * the device and flushes it.
 */
int restore_metadata(const struct cache *cache, struct memory *memory,
		     const struct device *device, struct metadata_counts *counts);

/* The second of these alone, for a recovery that was cut short while it restored data. */
int restore_undone(const struct cache *cache, struct memory *memory,
		   const struct device *device, struct metadata_counts *counts);

/*
 * Writes each dirty page into its file below the mount point and flushes it. What that changes of the file's extents is
 * recorded in the log first; with undo NULL it is not. device is a file descriptor of what is mounted.
 */
int restore_data(const struct cache *cache, struct memory *memory, const char *mount_point,
		 int device, struct undo_log *undo, struct data_counts *counts);

#endif
