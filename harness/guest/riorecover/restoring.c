/* SPDX-License-Identifier: Apache-2.0 */
#include "restoring.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "extents.h"

/* Of one file, or of the files that are synced together. */
#define MOST_UNSYNCED	(4 << 20)

/* Fewer bytes are faster through the file cache, because the disk gets them together with those of other files. */
#define LEAST_DIRECT	((size_t)8 * RIO_PAGE_SIZE)

static void complain(uint32_t ino, const char *what, int err)
{
	fprintf(stderr, "riorecover: inode %u: %s: %s\n", ino, what, strerror(err));
}

static struct unsynced *current(struct restoring *restoring)
{
	return &restoring->files[restoring->nr_files - 1];
}

/* A page counts when it is on the disk, which may refuse it only now. */
static void count(struct restoring *restoring, struct unsynced *file, int err)
{
	struct data_counts *counts = restoring->counts;

	if (err) {
		counts->failed += file->pages;
	} else {
		counts->pages += file->pages;
		counts->bytes += file->bytes;
	}
	file->pages = file->bytes = 0;
	file->cached = false;
}

static void sync_alone(struct restoring *restoring, struct unsynced *file)
{
	int err = fsync(file->file.fd) ? errno : 0;

	/* Nobody knows what a disk that refused it has of it: that is undone by the next recovery. */
	if (err)
		complain(file->ino, "its data", err);
	else if (restoring->undo && file->recorded)
		undo_end(restoring->undo);
	file->recorded = false;
	count(restoring, file, err);
}

/* All files together. The one that is being written stays open. */
static void sync_together(struct restoring *restoring)
{
	int err = restoring->nr_files && syncfs(restoring->mount_fd) ? errno : 0, kept = 0;

	/* Nobody knows which of them a disk that refused something has. */
	if (err)
		complain(current(restoring)->ino, "its data, or that of files restored with it", err);
	for (int i = 0; i < restoring->nr_files; i++) {
		struct unsynced *file = &restoring->files[i];

		count(restoring, file, err);
		if (restoring->open && i == restoring->nr_files - 1)
			restoring->files[kept++] = *file;
		else
			restored_file_close(&file->file);
	}
	restoring->nr_files = kept;
}

/* Before more is written than may wait, while that file is being written or was. */
static void sync_if_much(struct restoring *restoring)
{
	uint64_t bytes = 0;

	if (current(restoring)->alone) {
		if (current(restoring)->bytes >= MOST_UNSYNCED)
			sync_alone(restoring, current(restoring));
		return;
	}
	for (int i = 0; i < restoring->nr_files; i++)
		bytes += restoring->files[i].bytes;
	if (bytes >= MOST_UNSYNCED || (!restoring->open && restoring->nr_files == MOST_FILES))
		sync_together(restoring);
}

/*
 * The pages that come until the next sync may split blocks of extents, whose halves reach the disk one after the other.
 * What cannot be recorded is restored all the same.
 */
static void record_extents(struct restoring *restoring, struct unsynced *file)
{
	int recorded;

	file->recorded = true;
	undo_begin(restoring->undo);
	recorded = extents_record(restoring->device, file->ino, restoring->undo);
	if (recorded > 0) {
		undo_commit(restoring->undo);
		return;
	}
	undo_end(restoring->undo);
	if (recorded)
		complain(file->ino, "a reset while it is restored may tear its extents", -recorded);
}

/* A write that has ended has changed the extents; one to the file cache does so when it is synced. */
static bool needs_order(const struct restoring *restoring, const struct unsynced *file, off_t at,
			size_t size, bool direct)
{
	uint64_t first = (uint64_t)at / RIO_PAGE_SIZE, pages = (size + RIO_PAGE_SIZE - 1) / RIO_PAGE_SIZE;

	return file->cached || !(direct ? extents_in_inode(restoring->device, file->ino) :
					  extents_stay_in_inode(restoring->device, file->ino, first, pages));
}

/* Writes a part of the batch. */
static bool write_part(struct restoring *restoring, size_t from, size_t size, bool direct)
{
	const struct batch *batch = &restoring->batch;
	struct unsynced *file = current(restoring);
	off_t at = batch->at + (off_t)from;

	file->alone |= needs_order(restoring, file, at, size, direct);
	if (file->alone && restoring->undo && !file->recorded)
		record_extents(restoring, file);
	if (direct ? restored_file_write_direct(&file->file, batch->content + from, size, at) :
		     restored_file_write(&file->file, batch->content + from, size, at))
		return false;
	/* It may have needed more extents than the inode has room for. */
	if (direct)
		file->alone |= needs_order(restoring, file, at, size, true);
	else
		file->cached = true;
	file->pages += (size + RIO_PAGE_SIZE - 1) / RIO_PAGE_SIZE;
	file->bytes += size;
	return true;
}

/* Writes the batch and empties it. What is refused is written page by page, so that the others are restored. */
static void write_batch(struct restoring *restoring)
{
	size_t size = restoring->batch.size, from = size / RIO_PAGE_SIZE * RIO_PAGE_SIZE, part;

	restoring->batch.size = 0;
	if (!size)
		return;
	if (from < LEAST_DIRECT || !write_part(restoring, 0, from, true))
		from = 0;
	if (from < size && !write_part(restoring, from, size - from, false)) {
		for (; from < size; from += part) {
			part = size - from < RIO_PAGE_SIZE ? size - from : RIO_PAGE_SIZE;
			restoring->counts->failed += !write_part(restoring, from, part, false);
		}
	}
	sync_if_much(restoring);
}

/* What cannot be put back is told; the data is there. */
static void close_file(struct restoring *restoring)
{
	struct unsynced *file;
	int err;

	if (!restoring->open)
		return;
	write_batch(restoring);
	file = current(restoring);
	err = restored_file_put_back(&file->file);
	if (err)
		complain(file->ino, "its attributes", -err);
	restoring->open = false;
	if (!file->alone) {
		sync_if_much(restoring);
		return;
	}
	sync_alone(restoring, file);
	restored_file_close(&file->file);
	restoring->nr_files--;
}

int restoring_open(struct restoring *restoring, uint32_t ino, uint32_t generation)
{
	struct unsynced *file;
	int err;

	close_file(restoring);
	file = &restoring->files[restoring->nr_files];
	*file = (struct unsynced){ .ino = ino };
	err = restored_file_open(&file->file, restoring->mount_fd, ino, generation);
	restoring->open = !err;
	restoring->nr_files += !err;
	return err;
}

void restoring_page(struct restoring *restoring, const void *content, size_t size, off_t at)
{
	struct batch *batch = &restoring->batch;

	if (at != batch->at + (off_t)batch->size || batch->size == BATCH_SIZE) {
		write_batch(restoring);
		batch->at = at;
	}
	memcpy(batch->content + batch->size, content, size);
	batch->size += size;
}

void restoring_end(struct restoring *restoring)
{
	close_file(restoring);
	sync_together(restoring);
}
