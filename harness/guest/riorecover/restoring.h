/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files whose data is being restored: which pages are written together, and which files reach the disk together.
 *
 * A reset must not find an inode on the disk without the blocks of extents that it leads to, and nothing lists those of
 * a file that was clean. Without a journal only fsync() writes them in order, as long as nothing else has written the
 * inode. So a file with such blocks is synced alone, and what is changed of them is recorded first. A file whose extents
 * are all in its inode needs no order. Those are synced together, because waiting for the disk takes most of the time.
 *
 * Stage 0 has no flusher, and so few dirty pages that no writer becomes its own (init, vm.dirty_bytes).
 */
#ifndef RESTORING_H
#define RESTORING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "restore.h"
#include "restored_file.h"
#include "rio_registry.h"
#include "undo.h"

#define BATCH_SIZE	((size_t)1 << 20)
#define MOST_FILES	64

/* Neighbouring pages of a file that are written together. */
struct batch {
	off_t at;
	size_t size;
	_Alignas(RIO_PAGE_SIZE) uint8_t content[BATCH_SIZE];
};

/* A file, and how many of its pages may not be on the disk yet. */
struct unsynced {
	struct restored_file file;
	uint32_t ino;
	uint64_t pages, bytes;
	bool alone;	/* it is synced alone */
	bool cached;	/* some of it is in the file cache */
	bool recorded;	/* what it changes of its extents, since it was last synced */
};

struct restoring {
	int mount_fd, device;
	struct undo_log *undo;	/* NULL: nothing is recorded */
	struct data_counts *counts;
	struct batch batch;
	struct unsynced files[MOST_FILES];
	int nr_files;		/* the last of them is being written if open */
	bool open;
};

/* Makes the file the one that the next pages are for; 0, or as restored_file_open(). */
int restoring_open(struct restoring *restoring, uint32_t ino, uint32_t generation);

/*
 * A page of that file, with `size` bytes, which begins at `at`. It is written and counted with the pages that follow.
 */
void restoring_page(struct restoring *restoring, const void *content, size_t size, off_t at);

/* All that was given is written, synced and counted. */
void restoring_end(struct restoring *restoring);

#endif
