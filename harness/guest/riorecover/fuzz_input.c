/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random bytes never have a valid checksum, so the first byte of an input says which
 * checksums to fix: the fuzzer must reach the code behind the checks.
 */
#include "fuzz_input.h"

#include <endian.h>
#include <stdbool.h>
#include <string.h>

#include "crc32c.h"
#include "save.h"

enum {
	FIX_MAGIC = 1, FIX_PLACE = 2, FIX_HEADER = 4, FIX_ENTRIES = 8, FIX_SENSE = 16,
	FIX_SAVE = 32,
};

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
			h.flags = htole32(le32toh(h.flags) % 9 ? RIO_CHECKSUMS : le32toh(h.flags));
		}
		if (flags & FIX_PLACE) {
			h.start = htole64(REGISTRY);
			h.size = htole64(RIO_PAGE_SIZE + le64toh(h.size) % (2 * RIO_PAGE_SIZE + 64));
			h.nr_pairs = htole64(le64toh(h.nr_pairs) % 140);
			/* Whichever copy holds, the entries are of its boot. */
			boot_id = h.boot_id = i ? boot_id : h.boot_id;
			first_pfn = h.first_pfn = i ? first_pfn : htole64(le64toh(h.first_pfn) % 8);
		}
		h.crc = htole32(crc32c(0, &h, offsetof(struct rio_header, crc)));
		memcpy(at, &h, sizeof(h));
	}
}

/* States and flags that may stand together, one that may not, and any. */
static uint8_t fix_state(uint8_t byte)
{
	static const uint8_t states[] = {
		RIO_FREE, RIO_CLEAN, RIO_DIRTY, RIO_DIRTY, RIO_DIRTY | RIO_CHANGING,
		RIO_METADATA | RIO_CLEAN, RIO_METADATA | RIO_DIRTY,
		RIO_METADATA | RIO_CLEAN | RIO_CHANGING,
		RIO_METADATA | RIO_SHADOWED, RIO_METADATA | RIO_SHADOWED,
		RIO_METADATA | RIO_SHADOWED | RIO_CHANGING,
	};

	return byte % 16u < sizeof(states) ? states[byte % 16u] : byte;
}

/* An entry of the file system that is recovered, mostly one that makes sense. */
static void fix_sense(struct rio_entry *entry, const uint8_t *ram, uint64_t pfn)
{
	entry->dev = htole32(1);
	entry->state = fix_state(entry->state);
	if (entry->state & RIO_METADATA) {
		/* Of RAM, and a little more: the shadow */
		entry->ino = htole32(le32toh(entry->ino) % (RAM_PAGES + 2));
		/* A few operations, of which some are pending */
		entry->generation = htole32(le32toh(entry->generation) % 4);
		entry->bytes = htole16(RIO_PAGE_SIZE);
		entry->index = htole64(le64toh(entry->index) % (DEVICE_BLOCKS + 1));
	} else {
		entry->ino = htole32(FIRST_FILE - 1 + le32toh(entry->ino) % (FILES + 2));
		entry->generation = htole32(!(le32toh(entry->generation) % 8));
		entry->bytes = htole16(le16toh(entry->bytes) % (RIO_PAGE_SIZE + 2));
		entry->index = htole64(le64toh(entry->index) % 4);
	}
	if (le32toh(entry->data_crc) % 2 && pfn < RAM_PAGES)
		entry->data_crc = htole32(crc32c(0, ram + pfn * RIO_PAGE_SIZE, RIO_PAGE_SIZE));
}

static void fix_entries(uint8_t *ram, bool sense)
{
	struct rio_header h;
	uint8_t *pairs = ram + REGISTRY + RIO_PAGE_SIZE;

	memcpy(&h, ram + REGISTRY, sizeof(h));
	for (uint64_t i = 0; i < 2 * RIO_PAGE_SIZE / sizeof(struct rio_pair); i++) {
		uint64_t pfn = le64toh(h.first_pfn) + i, id[2] = { h.boot_id, htole64(pfn) };
		struct rio_pair pair;

		memcpy(&pair, pairs + i * sizeof(pair), sizeof(pair));
		for (int c = 0; c < 2; c++) {
			if (sense)
				fix_sense(&pair.copy[c], ram, pfn);
			pair.copy[c].crc = htole32(crc32c(crc32c(0, id, sizeof(id)), &pair.copy[c],
							  offsetof(struct rio_entry, crc)));
		}
		memcpy(pairs + i * sizeof(pair), &pair, sizeof(pair));
	}
}

/* A few places of the table hold one of the operations of fix_sense(). */
static void fix_pending(uint8_t *ram)
{
	for (size_t i = 0; i < RIO_MAX_PENDING; i += 31) {
		struct rio_pending pending;
		uint8_t *at = ram + REGISTRY + RIO_PENDING_OFFSET + i * sizeof(pending);

		memcpy(&pending, at, sizeof(pending));
		pending.operation = htole32(le32toh(pending.operation) % 4);
		pending.inverted = ~pending.operation;
		memcpy(at, &pending, sizeof(pending));
	}
}

void input_ram(uint8_t *ram, const uint8_t *data, size_t size)
{
	size_t room = RAM_SIZE - REGISTRY;

	memset(ram, 0, RAM_SIZE);
	/* The registry first, so that short inputs have one. */
	memcpy(ram + REGISTRY, data + 1, size - 1 < room ? size - 1 : room);
	if (*data & FIX_HEADER)
		fix_header(ram, *data);
	if (*data & FIX_ENTRIES)
		fix_entries(ram, *data & FIX_SENSE);
	if (*data & FIX_SENSE)
		fix_pending(ram);
}

void input_save(uint8_t *save, const uint8_t *data, size_t size)
{
	struct save_header h;
	uint64_t table;

	/* The end of the input: places and what happens there, mostly to header and table. */
	for (size_t at = size > 24 ? size - 24 : 1; at + 4 <= size; at += 4) {
		size_t place = data[at] + 256u * data[at + 1];

		save[data[at + 2] % 2 ? place % (2 * RIO_PAGE_SIZE) : place % SAVE_SIZE] ^= data[at + 3];
	}
	if (!(*data & FIX_SAVE))
		return;
	memcpy(&h, save, sizeof(h));
	table = le64toh(h.nr_pages) * sizeof(struct save_entry);
	if (le64toh(h.nr_pages) < SAVE_PAGES)
		h.table_crc = htole32(crc32c(0, save + RIO_PAGE_SIZE, table));
	h.crc = htole32(crc32c(0, &h, offsetof(struct save_header, crc)));
	memcpy(save, &h, sizeof(h));
}
