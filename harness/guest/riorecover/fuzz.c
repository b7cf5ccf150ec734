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

#include "fuzz_input.h"
#include "memory.h"
#include "registry.h"
#include "restore.h"
#include "save.h"

/* The content of a block or page before it is written. */
enum { UNTOUCHED = 0xa5 };

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

static void check_counts(const struct registry *registry)
{
	const struct registry_counts *c = &registry->counts;
	const struct checksum_counts *sums = &registry->checksums;
	uint64_t unlisted = c->free + c->clean + c->pending + c->rejected + c->senseless +
			    c->foreign + c->unreadable;
	uint64_t checked = sums->intact + sums->corrupt + sums->changing;

	MUST(c->pairs == le64toh(registry->header.nr_pairs));
	MUST(registry->nr_pages == c->dirty_data + c->dirty_metadata + c->shadowed);
	/* Every pair is counted exactly once. */
	MUST(c->pairs == unlisted + registry->nr_pages);
	if (le32toh(registry->header.flags) & RIO_CHECKSUMS)
		MUST(checked >= c->dirty_data + c->dirty_metadata &&
		     checked <= registry->nr_pages + c->clean + c->pending + c->unreadable);
	else
		MUST(!checked);
	for (uint64_t i = 0; i < registry->nr_pages; i++) {
		const struct page *page = &registry->pages[i];

		MUST(page->address % RIO_PAGE_SIZE == 0 && page->address < RAM_SIZE);
		MUST(page->ino || page->index < DEVICE_BLOCKS);
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

/* May these bytes be there? Only unchanged, or as a page that is listed for that place. */
static void check_place(const struct registry *registry, struct memory *memory, uint32_t ino,
			uint64_t index, const uint8_t *bytes, size_t size)
{
	bool right = *bytes == UNTOUCHED && !memcmp(bytes, bytes + 1, size - 1);

	for (uint64_t i = 0; !right && i < registry->nr_pages; i++) {
		const struct page *page = &registry->pages[i];
		const void *content;

		if (page->ino != ino || page->index != index || page->generation)
			continue;
		content = memory_at(memory, page->address, RIO_PAGE_SIZE);
		right = content && !memcmp(bytes, content, size) && in_ram(content);
	}
	MUST(right && "written by the registry alone");
}

static void check_places(const struct registry *registry, struct memory *memory)
{
	struct stat st;

	for (uint64_t i = 0; i < DEVICE_BLOCKS; i++)
		check_place(registry, memory, 0, i, disk.at + i * RIO_PAGE_SIZE, RIO_PAGE_SIZE);
	for (uint32_t f = 0; f < FILES; f++)
		for (size_t at = 0; at < FILE_SIZE; at += RIO_PAGE_SIZE)
			check_place(registry, memory, FIRST_FILE + f, at / RIO_PAGE_SIZE, files[f].at + at,
				    FILE_SIZE - at < RIO_PAGE_SIZE ? FILE_SIZE - at : RIO_PAGE_SIZE);
	MUST(!fstat(disk.fd, &st) && st.st_size == DEVICE_SIZE);
	for (int f = 0; f < FILES; f++)
		MUST(!fstat(files[f].fd, &st) && st.st_size == FILE_SIZE);
}

static void restore(const struct registry *registry, struct memory *memory,
		    const struct device *device)
{
	const struct registry_counts *c = &registry->counts;
	struct metadata_counts blocks = { 0 };
	struct data_counts data = { 0 };

	MUST(!restore_metadata(registry, memory, device, &blocks));
	MUST(blocks.written == c->dirty_metadata + c->shadowed && !blocks.failed);
	MUST(!restore_data(registry, memory, "/", &data));
	MUST(data.pages + data.lost_inodes + data.beyond_size == c->dirty_data && !data.failed);
	check_places(registry, memory);
}

/* Recovers from memory, saving it first, or from a save. */
static void recover(struct memory *memory, bool saving)
{
	struct device device = { .fd = disk.fd, .blocks = DEVICE_BLOCKS };
	struct save_result saved = { 0 };
	struct registry registry;
	uint32_t dev;

	if (registry_open(&registry, memory, REGISTRY, REGISTRY_SIZE) != REGISTRY_VALID)
		return;
	memcpy(device.uuid, registry.header.fs[0].uuid, sizeof(device.uuid));
	dev = registry_find_fs(&registry, device.uuid);
	if (registry_collect(&registry, memory, dev, device.blocks))
		return;
	check_counts(&registry);
	if (saving) {
		save_write(place_for_save.path, &registry, memory, device.uuid, &saved);
		MUST(!*saved.error);
	}
	restore(&registry, memory, &device);
	if (saving)
		MUST(!registry_mark_recovered(&registry, memory));
	registry_close(&registry);
}

static void recover_from_memory(void)
{
	struct memory memory;

	MUST(!memory_open(&memory, ram.path, RAM_SIZE, true));
	recover(&memory, true);
	memory_close(&memory);
	/* Only the registry's header was written. */
	MUST(!memcmp(before, ram.at, REGISTRY));
	MUST(!memcmp(before + REGISTRY + RIO_PAGE_SIZE, ram.at + REGISTRY + RIO_PAGE_SIZE,
		     RAM_SIZE - REGISTRY - RIO_PAGE_SIZE));
}

static void recover_from_save(void)
{
	uint8_t uuid[16];
	struct save save;

	memcpy(uuid, place_for_save.at + offsetof(struct save_header, uuid), sizeof(uuid));
	if (!save_open(&save, place_for_save.path, uuid))
		return;
	MUST(save.refused <= save.nr_pages && save.nr_pages < SAVE_PAGES);
	recover(&save.memory, false);
	save_close(&save);
	MUST(!save_forget(place_for_save.path) && !save_open(&save, place_for_save.path, uuid));
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
	recover_from_memory();
	set_up();
	input_save(place_for_save.at, data, size);
	recover_from_save();
	return 0;
}
