/* SPDX-License-Identifier: Apache-2.0 */
#include "restore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "extents.h"
#include "restored_file.h"

/*
 * A reset must not find an inode on the disk without the blocks of extents that it leads to, and nothing lists those of
 * a file that was clean. Without a journal only fsync() writes them in order, as long as nothing else has written the
 * inode. Stage 0 has no flusher, and this many bytes of dirty data make no writer its own (init, vm.dirty_bytes).
 */
#define MOST_UNSYNCED	(4 << 20)

static int complain(const char *path, int err)
{
	fprintf(stderr, "riorecover: %s: %s\n", path, strerror(err));
	return -err;
}

/* Writes a block as the page has it, or without a page as the device has it, with its undo. */
static bool restore_block(const struct cache *cache, struct memory *memory,
			  const struct device *device, uint64_t block, const struct page *page)
{
	uint8_t content[RIO_PAGE_SIZE];
	off_t at = (off_t)(block * RIO_PAGE_SIZE);
	const void *found = page ? memory_at(memory, page->address, RIO_PAGE_SIZE) : NULL;

	if (found)
		memcpy(content, found, sizeof(content));
	else if (page || pread(device->fd, content, sizeof(content), at) != sizeof(content))
		return false;
	return log_undo(&cache->log, memory, block, content) &&
	       pwrite(device->fd, content, sizeof(content), at) == sizeof(content);
}

/* Undoes what was changed of blocks; without listed of those alone that are not in memory. */
static void undo_blocks(const struct cache *cache, struct memory *memory, const struct device *device,
			bool listed, struct metadata_counts *counts)
{
	const struct operation_log *log = &cache->log;

	for (uint64_t i = 0; i < log->nr_undos; i++) {
		uint64_t block = log->undos[i].block;

		if ((i && block == log->undos[i - 1].block) ||
		    (!listed && entries_find_block(&cache->entries, block)))
			continue;
		*(restore_block(cache, memory, device, block, NULL) ?
		  &counts->written : &counts->failed) += 1;
	}
}

int restore_undone(const struct cache *cache, struct memory *memory,
		   const struct device *device, struct metadata_counts *counts)
{
	undo_blocks(cache, memory, device, true, counts);
	return fsync(device->fd) ? complain("device", errno) : 0;
}

int restore_metadata(const struct cache *cache, struct memory *memory,
		     const struct device *device, struct metadata_counts *counts)
{
	const struct entries *entries = &cache->entries;

	/* Sorted: metadata comes first. */
	for (uint64_t i = 0; i < entries->nr_pages && !entries->pages[i].ino; i++) {
		const struct page *page = &entries->pages[i];

		*(restore_block(cache, memory, device, page->index, page) ?
		  &counts->written : &counts->failed) += 1;
	}
	undo_blocks(cache, memory, device, false, counts);
	return fsync(device->fd) ? complain("device", errno) : 0;
}

/* The file whose pages are being written, and how many of them may not be on the disk yet. */
struct restoring {
	struct restored_file file;
	uint32_t ino;
	uint64_t pages, bytes;
	struct undo_log *undo;	/* NULL: nothing is recorded */
	bool recorded;		/* since it was last synced */
	int device;
};

static void complain_of_file(const struct restoring *restoring, const char *what, int err)
{
	fprintf(stderr, "riorecover: inode %u: %s: %s\n", restoring->ino, what, strerror(err));
}

/* A page counts when it is on the disk, which may refuse it only now. */
static void sync_file(struct restoring *restoring, struct data_counts *counts)
{
	if (fsync(restoring->file.fd)) {
		/* Nobody knows what the disk has of it: that is undone by the next recovery. */
		complain_of_file(restoring, "its data", errno);
		counts->failed += restoring->pages;
	} else {
		counts->pages += restoring->pages;
		counts->bytes += restoring->bytes;
		if (restoring->undo)
			undo_end(restoring->undo);
	}
	restoring->pages = restoring->bytes = 0;
	restoring->recorded = false;
}

/*
 * The pages that come until the next sync may split blocks of extents, whose halves reach the disk one after the other.
 * What cannot be recorded is restored all the same.
 */
static void record_extents(struct restoring *restoring)
{
	int recorded;

	restoring->recorded = true;
	undo_begin(restoring->undo);
	recorded = extents_record(restoring->device, restoring->ino, restoring->undo);
	if (recorded > 0) {
		undo_commit(restoring->undo);
		return;
	}
	undo_end(restoring->undo);
	if (recorded)
		complain_of_file(restoring, "a reset while it is restored may tear its extents", -recorded);
}

/*
 * A file's size comes from the restored inode and is never changed. It does not
 * come from the entry: a growing file gets its new size in the inode first, and
 * the rest of the page, which is zeros, is then part of the file.
 */
static void restore_page(struct restoring *restoring, const struct page *page,
			 struct memory *memory, struct data_counts *counts)
{
	const struct restored_file *file = &restoring->file;
	off_t offset = (off_t)(page->index * RIO_PAGE_SIZE);
	size_t length = RIO_PAGE_SIZE;
	const void *content;

	if (offset >= file->size) {
		counts->beyond_size++;
		return;
	}
	if ((off_t)length > file->size - offset)
		length = (size_t)(file->size - offset);
	if (restoring->undo && !restoring->recorded)
		record_extents(restoring);
	content = memory_at(memory, page->address, RIO_PAGE_SIZE);
	if (!content || pwrite(file->fd, content, length, offset) != (ssize_t)length) {
		counts->failed++;
		return;
	}
	restoring->pages++;
	restoring->bytes += length;
	if (restoring->bytes >= MOST_UNSYNCED)
		sync_file(restoring, counts);
}

/* What cannot be put back is told; the data is there. */
static void close_file(struct restoring *restoring, struct data_counts *counts)
{
	int err;

	if (restoring->file.fd < 0)
		return;
	err = restored_file_put_back(&restoring->file);
	if (err)
		complain_of_file(restoring, "its attributes", -err);
	sync_file(restoring, counts);
	restored_file_close(&restoring->file);
}

int restore_data(const struct cache *cache, struct memory *memory, const char *mount_point,
		 int device, struct undo_log *undo, struct data_counts *counts)
{
	const struct entries *entries = &cache->entries;
	int mount_fd = open(mount_point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct restoring restoring = { .file.fd = -1, .undo = undo, .device = device };
	const struct page *last = NULL;
	int opened = 0, err = 0;

	if (mount_fd < 0)
		return complain(mount_point, errno);
	for (uint64_t i = 0; i < entries->nr_pages; i++) {
		const struct page *page = &entries->pages[i];

		if (!page->ino)
			continue;
		if (!last || page->ino != last->ino ||
		    page->generation != last->generation) {
			close_file(&restoring, counts);
			opened = restored_file_open(&restoring.file, mount_fd, page->ino, page->generation);
			restoring.ino = page->ino;
			counts->files += !opened;
		}
		last = page;
		if (!opened)
			restore_page(&restoring, page, memory, counts);
		else if (opened == -ESTALE)
			counts->lost_inodes++;
		else
			counts->failed++;
	}
	close_file(&restoring, counts);
	/* What a file's sync refused has been counted, and would be told here once more. */
	if (syncfs(mount_fd) && !counts->failed)
		err = complain(mount_point, errno);
	close(mount_fd);
	return err;
}
