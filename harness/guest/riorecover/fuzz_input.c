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
	uint64_t boot_id = 0;

	for (int i = 0; i < 2; i++) {
		struct rio_header h;
		uint8_t *at = ram + REGISTRY + i * RIO_HEADER_STRIDE;

		memcpy(&h, at, sizeof(h));
		if (flags & FIX_MAGIC) {
			h.magic = htole64(RIO_MAGIC);
			h.version = htole32(RIO_VERSION);
			h.nr_fs = htole32(1 + le32toh(h.nr_fs) % (RIO_MAX_FS + 1));
			for (int fs = 0; fs < RIO_MAX_FS; fs++) {
				h.fs[fs].dev = htole32(le32toh(h.fs[fs].dev) % 4);
				h.fs[fs].phase = htole32(le32toh(h.fs[fs].phase) % 4);
			}
			h.fs[0].dev = htole32(1);
			h.fs[0].phase = htole32(RIO_ACTIVE);
			h.flags = htole32(le32toh(h.flags) % 9 ? RIO_CHECKSUMS : le32toh(h.flags));
		}
		if (flags & FIX_PLACE) {
			h.start = htole64(REGISTRY);
			h.size = htole64(REGISTRY_SIZE - (le64toh(h.size) % 8 ? 0 : 1000));
			h.nr_entries = htole64(le64toh(h.nr_entries) % 140);
			h.log_start = htole64(REGISTRY + (1 + ENTRY_PAGES + !(le64toh(h.log_start) % 8)) * RIO_PAGE_SIZE);
			h.nr_log_pages = htole32(le32toh(h.nr_log_pages) % (LOG_PAGES + 2));
			/* Whichever copy holds, the entries are of its boot. */
			boot_id = h.boot_id = i ? boot_id : h.boot_id;
		}
		h.crc = htole32(crc32c(0, &h, offsetof(struct rio_header, crc)));
		memcpy(at, &h, sizeof(h));
	}
}

static uint32_t frame_seed(const uint8_t *ram, uint64_t pfn)
{
	struct rio_header h;
	uint64_t id[2];

	memcpy(&h, ram + REGISTRY, sizeof(h));
	id[0] = h.boot_id;
	id[1] = htole64(pfn);
	return crc32c(0, id, sizeof(id));
}

/* A word with the right check. */
static uint64_t fix_word(uint64_t word, uint32_t seed)
{
	word = htole64(word & (((uint64_t)1 << RIO_WORD_CHECK_SHIFT) - 1));
	return htole64(le64toh(word) | (uint64_t)(crc32c(seed, &word, sizeof(word)) & 0xffff)
				       << RIO_WORD_CHECK_SHIFT);
}

/* States and flags that may stand together, one that may not, and any. */
static uint8_t fix_state(uint8_t byte)
{
	static const uint8_t states[] = {
		RIO_FREE, RIO_CLEAN, RIO_DIRTY, RIO_DIRTY, RIO_DIRTY | RIO_CHANGING,
		RIO_METADATA | RIO_CLEAN, RIO_METADATA | RIO_DIRTY, RIO_METADATA | RIO_DIRTY,
		RIO_METADATA | RIO_DIRTY | RIO_CHANGING, RIO_DIRTY | 0x10,
	};

	return byte % 16u < sizeof(states) ? states[byte % 16u] : byte;
}

/* An entry of the file system that is recovered, mostly one that makes sense. */
static void fix_sense(struct rio_entry *entry, const uint8_t *ram, uint64_t pfn)
{
	uint64_t word = le64toh(entry->word);
	uint32_t data_crc = (uint32_t)word;
	uint8_t state = fix_state((uint8_t)(word >> RIO_WORD_STATE_SHIFT));

	if (data_crc % 2 && pfn < RAM_PAGES)
		data_crc = crc32c(0, ram + pfn * RIO_PAGE_SIZE, RIO_PAGE_SIZE);
	entry->word = htole64(data_crc | (uint64_t)state << RIO_WORD_STATE_SHIFT);
	entry->dev = htole32(1 + !(le32toh(entry->dev) % 8));
	if (state & RIO_METADATA) {
		entry->ino = htole32(!(le32toh(entry->ino) % 16));
		entry->generation = 0;
		entry->index = htole64(le64toh(entry->index) % (DEVICE_BLOCKS + 1));
	} else {
		entry->ino = htole32(FIRST_FILE - 1 + le32toh(entry->ino) % (FILES + 2));
		entry->generation = htole32(!(le32toh(entry->generation) % 8));
		entry->index = htole64(le64toh(entry->index) % 4);
	}
}

static void fix_entries(uint8_t *ram, bool sense)
{
	uint8_t *entries = ram + REGISTRY + RIO_PAGE_SIZE;
	size_t from = offsetof(struct rio_entry, ino), to = offsetof(struct rio_entry, crc);

	for (uint64_t i = 0; i < ENTRY_PAGES * RIO_PAGE_SIZE / sizeof(struct rio_entry); i++) {
		uint32_t seed = frame_seed(ram, i);
		struct rio_entry entry;

		memcpy(&entry, entries + i * sizeof(entry), sizeof(entry));
		if (sense)
			fix_sense(&entry, ram, i);
		entry.word = fix_word(le64toh(entry.word), seed);
		entry.crc = htole32(crc32c(seed, (const uint8_t *)&entry + from, to - from));
		memcpy(entries + i * sizeof(entry), &entry, sizeof(entry));
	}
}

/* Makes the record there right, mostly one that makes sense; returns its size, at most room. */
static size_t fix_record(uint8_t *at, size_t room, uint32_t seed, bool sense)
{
	struct rio_undo record;
	size_t size;

	memcpy(&record, at, sizeof(record));
	size = (sizeof(record) + le16toh(record.size) % 200) / 8 * 8;
	if (size > room)
		size = room;
	record.size = htole16((uint16_t)size);
	if (sense) {
		record.type = record.type % 16 ? 1 + record.type % 3 : record.type;
		record.dev = htole32(1 + !(le32toh(record.dev) % 8));
		record.length = htole16((uint16_t)(size - sizeof(record)));
		record.offset = htole16(le16toh(record.offset) % RIO_PAGE_SIZE);
		record.block = htole64(le64toh(record.block) % (DEVICE_BLOCKS + 1));
	}
	memcpy(at, &record, sizeof(record));
	record.crc = htole32(crc32c(seed, at + sizeof(record.crc), size - sizeof(record.crc)));
	memcpy(at, &record, sizeof(record));
	return size;
}

/* The number of an operation is one of two, so that one goes on in another page now and then. */
static void fix_log(uint8_t *ram, bool sense)
{
	for (uint64_t i = 0; i < LOG_PAGES; i++) {
		uint64_t pfn = REGISTRY_PAGE + 1 + ENTRY_PAGES + i, word, used, kind, operation;
		uint8_t *page = ram + pfn * RIO_PAGE_SIZE;
		uint32_t seed = frame_seed(ram, pfn);

		memcpy(&word, page, sizeof(word));
		word = le64toh(word);
		used = word % (sizeof(((struct rio_log_page *)0)->records) + 1) / 8 * 8;
		if (sense) {
			kind = word >> RIO_WORD_KIND_SHIFT & 3;
			word = used | kind << RIO_WORD_KIND_SHIFT |
			       (word >> RIO_WORD_OPERATION_SHIFT & 1) << RIO_WORD_OPERATION_SHIFT;
		}
		operation = htole64(word >> RIO_WORD_OPERATION_SHIFT & 0xffffff);
		for (size_t at = 0; at + sizeof(struct rio_undo) <= used; )
			at += fix_record(page + 8 + at, used - at,
					 crc32c(seed, &operation, sizeof(operation)), sense);
		word = fix_word(word, seed);
		memcpy(page, &word, sizeof(word));
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
	if (*data & FIX_ENTRIES) {
		fix_log(ram, *data & FIX_SENSE);
		fix_entries(ram, *data & FIX_SENSE);
	}
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
