/* SPDX-License-Identifier: Apache-2.0 */
#include "undo.h"

#include <endian.h>
#include <stddef.h>
#include <string.h>

#include "crc32c.h"

#define ROOM	(RIO_PAGE_SIZE - offsetof(struct rio_log_page, records))
/* Shorter parts of a record are not worth their head. */
#define LEAST	64
#define NONE	UINT32_MAX

static uint32_t seed(const struct undo_log *undo, uint32_t page)
{
	return registry_seed(undo->registry, registry_log_page(undo->registry, page));
}

static void set_word(const struct undo_log *undo, uint32_t page, uint64_t content)
{
	registry_set_log_word(undo->registry, undo->memory, page, content);
}

static uint64_t content(const struct undo_log *undo, enum rio_log_kind kind, uint32_t used)
{
	return used | (uint64_t)kind << RIO_WORD_KIND_SHIFT |
	       (uint64_t)undo->operation << RIO_WORD_OPERATION_SHIFT;
}

static uint32_t last_page(const struct undo_log *undo)
{
	return undo->pages[undo->nr_pages - 1];
}

/* The first free page behind those that it has, NONE if there is none. */
static uint32_t free_page(const struct undo_log *undo)
{
	uint32_t i = undo->nr_pages ? last_page(undo) + 1 : 0;

	for (; i < le32toh(undo->registry->header.nr_log_pages) && undo->nr_pages < UNDO_PAGES; i++) {
		const uint64_t *word = memory_at(undo->memory, registry_log_page(undo->registry, i),
						 sizeof(*word));

		if (word && le64toh(*word) == registry_word(0, seed(undo, i)))
			return i;
	}
	return NONE;
}

static void add_page(struct undo_log *undo, uint32_t page)
{
	undo->pages[undo->nr_pages++] = page;
	undo->used = 0;
}

void undo_init(struct undo_log *undo, const struct registry *registry, struct memory *memory, uint32_t dev)
{
	*undo = (struct undo_log){ .registry = registry, .memory = memory, .dev = dev };
}

void undo_begin(struct undo_log *undo)
{
	uint32_t page;

	/* 24 bits; 0 is that of a free page. */
	undo->operation = undo->operation % 0xffffff + 1;
	undo->nr_pages = 0;
	page = free_page(undo);
	if (page != NONE)
		add_page(undo, page);
}

/* There is room for it. */
static void append(struct undo_log *undo, enum rio_undo_type type, uint64_t block, uint32_t offset,
		   const void *bytes, uint32_t length)
{
	uint64_t operation = htole64(undo->operation);
	struct rio_undo record = {
		.size = htole16((uint16_t)(sizeof(record) + length)),
		.type = (uint8_t)type,
		.dev = htole32(type == RIO_UNDO_NEXT ? 0 : undo->dev),
		.offset = htole16((uint16_t)offset),
		.length = htole16((uint16_t)length),
		.block = htole64(block),
	};
	uint64_t address = registry_log_page(undo->registry, last_page(undo)) +
			   offsetof(struct rio_log_page, records) + undo->used;
	uint8_t *place = memory_at(undo->memory, address, sizeof(record) + length);
	uint32_t crc = crc32c(seed(undo, last_page(undo)), &operation, sizeof(operation));

	if (!place)
		return;
	crc = crc32c(crc, (uint8_t *)&record + sizeof(record.crc), sizeof(record) - sizeof(record.crc));
	record.crc = htole32(crc32c(crc, bytes, length));
	memcpy(place, &record, sizeof(record));
	memcpy(place + sizeof(record), bytes, length);
	undo->used += (uint32_t)sizeof(record) + length;
	/* The first page's word follows with undo_commit(). */
	if (undo->nr_pages == 1)
		undo->first_used = undo->used;
	else
		set_word(undo, last_page(undo), content(undo, RIO_LOG_NEXT, undo->used));
}

/* Bytes of a record that still fit into the last page. */
static uint32_t room(const struct undo_log *undo)
{
	uint32_t heads = 2 * (uint32_t)sizeof(struct rio_undo);

	return ROOM - undo->used > heads ? (uint32_t)(ROOM - undo->used - heads) / 8 * 8 : 0;
}

bool undo_record(struct undo_log *undo, uint64_t block, uint32_t offset, const void *bytes, uint32_t length)
{
	if (!undo->nr_pages)
		return false;
	while (length) {
		uint32_t part = length < room(undo) ? length : room(undo), next;

		if (part < length && part < LEAST) {
			next = free_page(undo);
			if (next == NONE)
				return false;
			append(undo, RIO_UNDO_NEXT, next, 0, "", 0);
			add_page(undo, next);
			continue;
		}
		append(undo, RIO_UNDO_BYTES, block, offset, bytes, part);
		bytes = (const uint8_t *)bytes + part;
		offset += part;
		length -= part;
	}
	return true;
}

void undo_commit(struct undo_log *undo)
{
	set_word(undo, undo->pages[0], content(undo, RIO_LOG_FIRST, undo->first_used));
}

void undo_end(struct undo_log *undo)
{
	/* The first page first: without it the others count for nothing. */
	for (uint32_t i = 0; i < undo->nr_pages; i++)
		set_word(undo, undo->pages[i], 0);
	undo->nr_pages = 0;
}
