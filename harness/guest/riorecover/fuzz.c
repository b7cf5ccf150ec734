/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A libFuzzer target: an input is an image of RAM with a registry in it, a target
 * device is what it may write to.
 *
 * Random bytes never have a right checksum, so the first byte of an input says which
 * of them are made right: what is behind the checksums is what needs the fuzzer.
 */
#include <endian.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crc32c.h"
#include "memory.h"
#include "registry.h"
#include "restore.h"

enum { RAM_PAGES = 16, DEVICE_BLOCKS = 8, REGISTRY_PAGE = 2 };
enum { FIX_MAGIC = 1, FIX_PLACE = 2, FIX_HEADER = 4, FIX_ENTRIES = 8, FIX_SENSE = 16 };

#define RAM_SIZE (RAM_PAGES * RIO_PAGE_SIZE)
#define DEVICE_SIZE (DEVICE_BLOCKS * RIO_PAGE_SIZE)
#define REGISTRY (REGISTRY_PAGE * RIO_PAGE_SIZE)
#define REGISTRY_SIZE (2 * RIO_PAGE_SIZE)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MUST(condition)							\
	do {								\
		if (!(condition)) {					\
			fprintf(stderr, "not so: %s\n", #condition);	\
			abort();					\
		}							\
	} while (0)

/* A file in memory that both riorecover and the checks below can see. */
static int memory_file(const char *name, size_t size, uint8_t **at)
{
	int fd = memfd_create(name, MFD_CLOEXEC);

	MUST(fd >= 0 && !ftruncate(fd, (off_t)size));
	*at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	MUST(*at != MAP_FAILED);
	return fd;
}

static void fix_header(uint8_t *ram, uint8_t flags)
{
	uint64_t boot_id = 0, first_pfn = 0;

	for (int i = 0; i < 2; i++) {
		struct rio_header h;
		uint8_t *at = ram + REGISTRY + i * RIO_HEADER_STRIDE;

		memcpy(&h, at, sizeof(h));
		if (flags & FIX_MAGIC) {
			h.magic = htole64(RIO_MAGIC);
			h.version = htole32(RIO_VERSION);
			h.phase = htole32(RIO_ACTIVE);
			h.nr_fs = htole32(1 + le32toh(h.nr_fs) % (RIO_MAX_FS + 1));
			h.fs[0].dev = htole32(1);
		}
		if (flags & FIX_PLACE) {
			h.start = htole64(REGISTRY);
			h.size = htole64(RIO_PAGE_SIZE + le64toh(h.size) % (RIO_PAGE_SIZE + 64));
			h.nr_pairs = htole64(le64toh(h.nr_pairs) % 70);
			/* Whichever copy holds, the entries are of its boot. */
			boot_id = h.boot_id = i ? boot_id : h.boot_id;
			first_pfn = h.first_pfn = i ? first_pfn : htole64(le64toh(h.first_pfn) % 8);
		}
		h.crc = htole32(crc32c(0, &h, offsetof(struct rio_header, crc)));
		memcpy(at, &h, sizeof(h));
	}
}

/* An entry of the file system that is recovered, mostly one that makes sense. */
static void fix_sense(struct rio_entry *entry)
{
	bool metadata = entry->state & RIO_METADATA;

	entry->dev = htole32(1);
	entry->state = (uint8_t)(entry->state % (RIO_DIRTY + 2) | (metadata ? RIO_METADATA : 0));
	entry->bytes = htole16(metadata ? RIO_PAGE_SIZE : le16toh(entry->bytes) % (RIO_PAGE_SIZE + 2));
	if (metadata) {
		entry->ino = entry->generation = 0;
		entry->index = htole64(le64toh(entry->index) % (DEVICE_BLOCKS + 1));
	}
}

static void fix_entries(uint8_t *ram, bool sense)
{
	struct rio_header h;
	uint8_t *pairs = ram + REGISTRY + RIO_PAGE_SIZE;

	memcpy(&h, ram + REGISTRY, sizeof(h));
	for (uint64_t i = 0; i < RIO_PAGE_SIZE / sizeof(struct rio_pair); i++) {
		uint64_t id[2] = { h.boot_id, htole64(le64toh(h.first_pfn) + i) };
		struct rio_pair pair;

		memcpy(&pair, pairs + i * sizeof(pair), sizeof(pair));
		for (int c = 0; c < 2; c++) {
			if (sense)
				fix_sense(&pair.copy[c]);
			pair.copy[c].crc = htole32(crc32c(crc32c(0, id, sizeof(id)), &pair.copy[c],
							  offsetof(struct rio_entry, crc)));
		}
		memcpy(pairs + i * sizeof(pair), &pair, sizeof(pair));
	}
}

static void check_counts(const struct registry *registry)
{
	const struct registry_counts *c = &registry->counts;
	uint64_t unlisted = c->free + c->clean + c->rejected + c->foreign + c->unreadable;

	MUST(c->pairs == le64toh(registry->header.nr_pairs));
	MUST(registry->nr_pages == c->dirty_data + c->dirty_metadata);
	/* Every pair is one of these, and only one. */
	MUST(c->pairs == unlisted + registry->nr_pages);
	for (uint64_t i = 0; i < registry->nr_pages; i++) {
		const struct page *page = &registry->pages[i];

		MUST(page->address % RIO_PAGE_SIZE == 0 && page->address < RAM_SIZE);
		MUST(page->ino || page->index < DEVICE_BLOCKS);
	}
}

static void recover(struct registry *registry, struct memory *memory, struct device *device)
{
	struct metadata_counts written = { 0 };
	uint32_t dev = registry_find_fs(registry, device->uuid);

	if (!registry_collect(registry, memory, dev, device->blocks)) {
		check_counts(registry);
		MUST(!restore_metadata(registry, memory, device, &written));
		MUST(written.written == registry->counts.dirty_metadata && !written.failed);
		MUST(!registry_mark_recovered(registry, memory));
		registry_close(registry);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t *ram, *disk, *before;
	static int ram_fd = -1, disk_fd;
	struct registry registry;
	struct memory memory;
	struct stat st;
	char path[32];

	if (ram_fd < 0) {
		ram_fd = memory_file("ram", RAM_SIZE, &ram);
		disk_fd = memory_file("disk", DEVICE_SIZE, &disk);
		before = malloc(RAM_SIZE);
	}
	if (!size)
		return 0;
	memset(ram, 0, RAM_SIZE);
	/* The registry first, so that short inputs have one. */
	memcpy(ram + REGISTRY, data + 1, size - 1 < RAM_SIZE - REGISTRY ? size - 1 : RAM_SIZE - REGISTRY);
	if (data[0] & FIX_HEADER)
		fix_header(ram, data[0]);
	if (data[0] & FIX_ENTRIES)
		fix_entries(ram, data[0] & FIX_SENSE);
	memcpy(before, ram, RAM_SIZE);

	snprintf(path, sizeof(path), "/proc/self/fd/%d", ram_fd);
	MUST(!memory_open(&memory, path, RAM_SIZE, true));
	struct device device = { .fd = disk_fd, .blocks = DEVICE_BLOCKS };
	memcpy(device.uuid, ram + REGISTRY + offsetof(struct rio_header, fs[0].uuid), sizeof(device.uuid));
	if (registry_open(&registry, &memory, REGISTRY, REGISTRY_SIZE) == REGISTRY_VALID)
		recover(&registry, &memory, &device);
	memory_close(&memory);

	/* Nothing was written but to the device and to the registry's header. */
	MUST(!memcmp(before, ram, REGISTRY));
	MUST(!memcmp(before + REGISTRY + RIO_PAGE_SIZE, ram + REGISTRY + RIO_PAGE_SIZE,
		     RAM_SIZE - REGISTRY - RIO_PAGE_SIZE));
	MUST(!fstat(disk_fd, &st) && st.st_size == DEVICE_SIZE);
	return 0;
}
