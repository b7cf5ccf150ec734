/* SPDX-License-Identifier: Apache-2.0 */
#include "restore.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "restoring.h"

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

/*
 * A file's size comes from the restored inode and is never changed. It does not
 * come from the entry: a growing file gets its new size in the inode first, and
 * the rest of the page, which is zeros, is then part of the file.
 */
static void restore_page(struct restoring *restoring, const struct page *page, struct memory *memory)
{
	off_t size = restoring->files[restoring->nr_files - 1].file.size;
	off_t offset = (off_t)(page->index * RIO_PAGE_SIZE);
	size_t length = RIO_PAGE_SIZE;
	const void *content;

	if (offset >= size) {
		restoring->counts->beyond_size++;
		return;
	}
	if ((off_t)length > size - offset)
		length = (size_t)(size - offset);
	content = memory_at(memory, page->address, RIO_PAGE_SIZE);
	if (content)
		restoring_page(restoring, content, length, offset);
	else
		restoring->counts->failed++;
}

int restore_data(const struct cache *cache, struct memory *memory, const char *mount_point,
		 int device, struct undo_log *undo, struct data_counts *counts)
{
	static struct restoring restoring;
	const struct entries *entries = &cache->entries;
	int mount_fd = open(mount_point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	const struct page *last = NULL;
	int opened = 0, err = 0;

	if (mount_fd < 0)
		return complain(mount_point, errno);
	restoring.mount_fd = mount_fd;
	restoring.device = device;
	restoring.undo = undo;
	restoring.counts = counts;
	for (uint64_t i = 0; i < entries->nr_pages; i++) {
		const struct page *page = &entries->pages[i];

		if (!page->ino)
			continue;
		if (!last || page->ino != last->ino ||
		    page->generation != last->generation) {
			opened = restoring_open(&restoring, page->ino, page->generation);
			counts->files += !opened;
		}
		last = page;
		if (!opened)
			restore_page(&restoring, page, memory);
		else if (opened == -ESTALE)
			counts->lost_inodes++;
		else
			counts->failed++;
	}
	restoring_end(&restoring);
	/* What a file's sync refused has been counted, and would be told here once more. */
	if (syncfs(mount_fd) && !counts->failed)
		err = complain(mount_point, errno);
	close(mount_fd);
	return err;
}
