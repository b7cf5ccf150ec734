/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libFuzzer target. An input gives an image of RAM with a registry in it, and damage to a
 * save of it. Recovery may write to a device and two files.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cache.h"
#include "fuzz_input.h"
#include "memory.h"
#include "restore.h"
#include "save.h"

/* The content of a block or page before it is written. */
enum { UNTOUCHED = 0xa5 };
/* In an input's first byte, beside those of fuzz_input.c. */
enum { KNOWN_DEVICE = 64 };

#define MUST(condition)							\
	do {								\
		if (!(condition)) {					\
			fprintf(stderr, "not so: %s\n", #condition);	\
			abort();					\
		}							\
	} while (0)

/* A file in memory that both riorecover and the checks below can see. */
struct shared {
	int fd;
	size_t size;
	uint8_t *at;
	char path[32];
};

static struct shared ram, disk, place_for_save, files[FILES];
static uint8_t before[RAM_SIZE];	/* as the crashed kernel left it */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* These replace functions of the C library, because no file system is mounted here. */
int __wrap_open_by_handle_at(int mount_fd, struct file_handle *handle, int flags);
int __wrap_syncfs(int fd);

int __wrap_open_by_handle_at(int mount_fd, struct file_handle *handle, int flags)
{
	uint32_t id[2];

	(void)mount_fd, (void)flags;
	memcpy(id, handle->f_handle, sizeof(id));
	if (id[0] >= FIRST_FILE && id[0] < FIRST_FILE + FILES && !id[1])
		return dup(files[id[0] - FIRST_FILE].fd);
	errno = ESTALE;
	return -1;
}

int __wrap_syncfs(int fd)
{
	(void)fd;
	return 0;
}

static void share(struct shared *file, size_t size)
{
	file->size = size;
	file->fd = memfd_create("shared", MFD_CLOEXEC);
	MUST(file->fd >= 0 && !ftruncate(file->fd, (off_t)size));
	file->at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file->fd, 0);
	MUST(file->at != MAP_FAILED);
	snprintf(file->path, sizeof(file->path), "/proc/self/fd/%d", file->fd);
}

static void set_up(void)
{
	if (!ram.at) {
		share(&ram, RAM_SIZE);
		share(&disk, DEVICE_SIZE);
		share(&place_for_save, SAVE_SIZE);
		for (int i = 0; i < FILES; i++)
			share(&files[i], FILE_SIZE);
	}
	memset(disk.at, UNTOUCHED, DEVICE_SIZE);
	for (int i = 0; i < FILES; i++)
		memset(files[i].at, UNTOUCHED, FILE_SIZE);
}

static void check_counts(const struct cache *cache)
{
	const struct entries *entries = &cache->entries;
	const struct entry_counts *c = &entries->counts;
	const struct checksum_counts *sums = &entries->checksums;
	uint64_t dirty = c->dirty_data + c->dirty_metadata;
	uint64_t unlisted = c->free + c->clean + c->rejected + c->inconsistent + c->foreign;
	uint64_t checked = sums->intact + sums->corrupt + sums->changing;

	/* Every entry is counted exactly once. */
	MUST(c->entries == le64toh(cache->registry.header.nr_entries));
	MUST(c->entries == unlisted + dirty + c->unreadable);
	MUST(dirty <= entries->nr_pages && entries->nr_pages <= dirty + c->unreadable);
	MUST(c->duplicates <= entries->nr_pages);
	if (le32toh(cache->registry.header.flags) & RIO_CHECKSUMS)
		MUST(checked >= dirty && checked <= entries->nr_pages + c->clean);
	else
		MUST(!checked);
	for (uint64_t i = 0; i < entries->nr_pages; i++) {
		const struct page *page = &entries->pages[i];

		MUST(page->address % RIO_PAGE_SIZE == 0);
		MUST(page->ino || page->index < DEVICE_BLOCKS);
	}
}

static void check_log(const struct cache *cache)
{
	const struct operation_log *log = &cache->log;

	MUST(log->counts.undone == log->nr_undos);
	MUST(log->counts.operations <= LOG_PAGES);
	for (uint64_t i = 0; i < log->nr_undos; i++) {
		const struct undo *undo = &log->undos[i];

		MUST(undo->block < DEVICE_BLOCKS && undo->length);
		MUST(undo->offset + undo->length <= RIO_PAGE_SIZE);
		MUST(undo->address >= REGISTRY + 2 * RIO_PAGE_SIZE &&
		     undo->address + undo->length <= REGISTRY + REGISTRY_SIZE);
		MUST(!i || undo[-1].block <= undo->block);
	}
}

/* Is this the unchanged content of a page of RAM, wherever it was written? */
static bool in_ram(const void *content)
{
	for (size_t at = 0; at < RAM_SIZE; at += RIO_PAGE_SIZE)
		if (!memcmp(content, before + at, RIO_PAGE_SIZE))
			return true;
	return false;
}

/* May this byte be there? Only if the log puts it back. */
static bool put_back(const struct cache *cache, uint64_t block, size_t at, uint8_t byte)
{
	for (uint64_t i = 0; i < cache->log.nr_undos; i++) {
		const struct undo *undo = &cache->log.undos[i];

		if (undo->block == block && at >= undo->offset && at < undo->offset + undo->length &&
		    before[undo->address + at - undo->offset] == byte)
			return true;
	}
	return false;
}

/* Is it a base, but for bytes that the log puts back? */
static bool from_base(const struct cache *cache, uint32_t ino, uint64_t index, const uint8_t *bytes,
		      size_t size, const uint8_t *base)
{
	for (size_t at = 0; at < size; at++)
		if (bytes[at] != (base ? base[at] : UNTOUCHED) &&
		    (ino || !put_back(cache, index, at, bytes[at])))
			return false;
	return true;
}

/* May these bytes be there? Only unchanged, or as a page that is listed for that place. */
static void check_place(const struct cache *cache, struct memory *memory, uint32_t ino,
			uint64_t index, const uint8_t *bytes, size_t size)
{
	bool right = from_base(cache, ino, index, bytes, size, NULL);

	for (uint64_t i = 0; !right && i < cache->entries.nr_pages; i++) {
		const struct page *page = &cache->entries.pages[i];
		const void *content;

		if (page->ino != ino || page->index != index || page->generation)
			continue;
		content = memory_at(memory, page->address, RIO_PAGE_SIZE);
		right = content && in_ram(content) && from_base(cache, ino, index, bytes, size, content);
	}
	MUST(right && "written by the registry alone");
}

static void check_places(const struct cache *cache, struct memory *memory)
{
	struct stat st;

	for (uint64_t i = 0; i < DEVICE_BLOCKS; i++)
		check_place(cache, memory, 0, i, disk.at + i * RIO_PAGE_SIZE, RIO_PAGE_SIZE);
	for (uint32_t f = 0; f < FILES; f++)
		for (size_t at = 0; at < FILE_SIZE; at += RIO_PAGE_SIZE)
			check_place(cache, memory, FIRST_FILE + f, at / RIO_PAGE_SIZE, files[f].at + at,
				    FILE_SIZE - at < RIO_PAGE_SIZE ? FILE_SIZE - at : RIO_PAGE_SIZE);
	MUST(!fstat(disk.fd, &st) && st.st_size == DEVICE_SIZE);
	for (int f = 0; f < FILES; f++)
		MUST(!fstat(files[f].fd, &st) && st.st_size == FILE_SIZE);
}

static void restore(const struct cache *cache, struct memory *memory, const struct device *device)
{
	const struct entry_counts *c = &cache->entries.counts;
	struct metadata_counts blocks = { 0 };
	struct data_counts data = { 0 };

	MUST(!restore_metadata(cache, memory, device, &blocks));
	MUST(blocks.written >= c->dirty_metadata && blocks.failed <= c->unreadable);
	MUST(blocks.written <= c->dirty_metadata + cache->log.nr_undos);
	MUST(!restore_data(cache, memory, "/", -1, NULL, &data));
	MUST(blocks.failed + data.pages + data.lost_inodes + data.beyond_size + data.failed ==
	     cache->entries.nr_pages - c->dirty_metadata);
	check_places(cache, memory);
}

/* A device with the UUID of the first file system in its superblock, or in a backup alone. */
static struct device device_for(struct memory *memory, bool known)
{
	struct device device = { .fd = disk.fd, .blocks = DEVICE_BLOCKS };
	struct superblock found = { .valid = true };
	struct registry registry;

	registry_open(&registry, memory, REGISTRY, REGISTRY_SIZE);
	memcpy(found.uuid, registry.header.fs[0].uuid, sizeof(found.uuid));
	*(known ? &device.superblock : &device.backup) = found;
	return device;
}

/* Recovers from memory, saving it first, or from a save. */
static void recover(struct memory *memory, bool saving, bool known)
{
	struct device device = device_for(memory, known);
	struct save_result saved = { 0 };
	struct cache cache;

	MUST(!cache_read(&cache, memory, REGISTRY, REGISTRY_SIZE, &device, "disk", false));
	if (cache.verdict == REGISTRY_VALID) {
		MUST(cache.match != MATCH_NONE && (known || cache.match == MATCH_ONLY));
		check_counts(&cache);
		check_log(&cache);
		if (saving) {
			save_write(place_for_save.path, &cache, memory, &saved);
			MUST(!*saved.error);
		}
		restore(&cache, memory, &device);
		if (saving)
			MUST(!registry_set_phase(&cache.registry, memory, cache.fs, RIO_RECOVERED));
	}
	cache_close(&cache);
}

static void recover_from_memory(bool known)
{
	struct memory memory;

	MUST(!memory_open(&memory, ram.path, RAM_SIZE, true));
	recover(&memory, true, known);
	memory_close(&memory);
	/* Only the registry's header was written. */
	MUST(!memcmp(before, ram.at, REGISTRY));
	MUST(!memcmp(before + REGISTRY + RIO_PAGE_SIZE, ram.at + REGISTRY + RIO_PAGE_SIZE,
		     RAM_SIZE - REGISTRY - RIO_PAGE_SIZE));
}

static void recover_from_save(bool known)
{
	struct save save;

	if (!save_open(&save, place_for_save.path))
		return;
	MUST(save.refused <= save.nr_pages && save.nr_pages < SAVE_PAGES);
	recover(&save.memory, false, known);
	save_close(&save);
	MUST(!save_forget(place_for_save.path) && !save_open(&save, place_for_save.path));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	set_up();
	/* Each input must be independent of the one before it. */
	memset(place_for_save.at, 0, SAVE_SIZE);
	input_ram(ram.at, data, size);
	memcpy(before, ram.at, RAM_SIZE);
	recover_from_memory(*data & KNOWN_DEVICE);
	set_up();
	input_save(place_for_save.at, data, size);
	recover_from_save(*data & KNOWN_DEVICE);
	return 0;
}
