/* SPDX-License-Identifier: Apache-2.0 */
#include "log.h"

#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "crc32c.h"

#define NONE UINT32_MAX
/* The most records that a log page can have. */
#define PAGE_RECORDS ((RIO_PAGE_SIZE - sizeof(uint64_t)) / sizeof(struct rio_undo))

/* What is known of a log page. */
struct log_word {
	uint32_t operation;
	uint16_t used;
	uint8_t kind;
	bool good;	/* the word is undamaged and makes sense */
	bool read;	/* belongs to an operation that has been read */
};

/* What is being read, and into what. */
struct reader {
	struct operation_log *log;
	const struct registry *registry;
	struct memory *memory;
	uint32_t dev;
	uint64_t device_blocks;
	struct log_word *words;
	uint32_t nr_pages;
	bool ours;	/* the operation that is being read has records of this device */
};

static bool word_makes_sense(const struct log_word *word)
{
	if (word->kind == RIO_LOG_FREE)
		return !word->used && !word->operation;
	return word->kind <= RIO_LOG_NEXT && word->used % 8 == 0 &&
	       word->used <= sizeof(((struct rio_log_page *)0)->records);
}

static void read_word(struct reader *r, uint32_t i)
{
	const void *at = memory_at(r->memory, registry_log_page(r->registry, i), sizeof(uint64_t));
	struct log_word *word = &r->words[i];
	uint64_t packed;

	if (!at) {
		r->log->counts.unreadable++;
		return;
	}
	memcpy(&packed, at, sizeof(packed));
	packed = le64toh(packed);
	if (!registry_word_holds(packed, registry_seed(r->registry, registry_log_page(r->registry, i)))) {
		r->log->counts.rejected++;
		return;
	}
	word->used = (uint16_t)packed;
	word->kind = (uint8_t)(packed >> RIO_WORD_KIND_SHIFT);
	word->operation = packed >> RIO_WORD_OPERATION_SHIFT & 0xffffff;
	word->good = word_makes_sense(word);
	r->log->counts.inconsistent += !word->good;
}

/* Reads the record there, as far as it goes within size bytes; false if it is damaged. */
static bool read_record(const uint8_t *at, uint32_t size, uint32_t seed, struct rio_undo *record)
{
	if (size < sizeof(*record))
		return false;
	memcpy(record, at, sizeof(*record));
	if (le16toh(record->size) < sizeof(*record) || le16toh(record->size) > size ||
	    le16toh(record->size) % 8)
		return false;
	return le32toh(record->crc) ==
	       crc32c(seed, at + sizeof(record->crc), le16toh(record->size) - sizeof(record->crc));
}

static bool bytes_make_sense(const struct reader *r, const struct rio_undo *record)
{
	uint32_t length = le16toh(record->length);

	return length && le16toh(record->offset) + length <= RIO_PAGE_SIZE &&
	       sizeof(*record) + length <= le16toh(record->size) &&
	       le64toh(record->block) < r->device_blocks;
}

/* A record with bytes, which lie at an address. */
static void note_bytes(struct reader *r, const struct rio_undo *record, uint64_t address)
{
	struct operation_log *log = r->log;

	if (le32toh(record->dev) != r->dev)
		return;
	r->ours = true;
	if (!bytes_make_sense(r, record)) {
		log->counts.inconsistent++;
	} else if (record->type == RIO_UNDO_SUPERSEDED) {
		log->counts.superseded++;
	} else {
		log->undos[log->nr_undos] = (struct undo){
			.block = le64toh(record->block),
			.address = address,
			.number = (uint32_t)log->nr_undos,
			.offset = le16toh(record->offset),
			.length = le16toh(record->length),
		};
		log->nr_undos++;
		log->counts.undone++;
	}
}

/*
 * The page where an operation goes on, NONE if that one is not its own or has been read. A free one is not used yet:
 * the crash came when the record that leads there was complete, and the first one there was not.
 */
static uint32_t next_page(struct reader *r, uint32_t i, uint64_t next)
{
	const struct log_word *word = next < r->nr_pages ? &r->words[next] : NULL;

	if (word && word->good && word->kind == RIO_LOG_NEXT && !word->read &&
	    word->operation == r->words[i].operation)
		return (uint32_t)next;
	/* One whose word is not good has been counted. */
	r->log->counts.inconsistent += !word || (word->good && word->kind != RIO_LOG_FREE);
	return NONE;
}

/* The seed of the checksums of an operation's records in a page. */
static uint32_t record_seed(const struct reader *r, uint32_t i)
{
	uint64_t operation = htole64(r->words[i].operation);

	return crc32c(registry_seed(r->registry, registry_log_page(r->registry, i)), &operation, sizeof(operation));
}

/*
 * Reads the records of a log page; returns where the operation goes on, or NONE. Behind a damaged
 * record the next undamaged one counts: where it begins may be damaged, too.
 */
static uint32_t read_page(struct reader *r, uint32_t i)
{
	uint64_t address = registry_log_page(r->registry, i) + offsetof(struct rio_log_page, records);
	uint32_t seed = record_seed(r, i), used = r->words[i].used, at = 0;
	const void *found = memory_at(r->memory, address, used);
	uint8_t records[RIO_PAGE_SIZE];
	bool damaged = false;

	r->words[i].read = true;
	r->log->pages[r->log->nr_pages++] = i;
	if (!found) {
		r->log->counts.unreadable++;
		return NONE;
	}
	memcpy(records, found, used);
	while (at < used) {
		struct rio_undo record;

		if (!read_record(records + at, used - at, seed, &record)) {
			r->log->counts.rejected += !damaged;
			damaged = true;
			at += 8;
			continue;
		}
		damaged = false;
		if (record.type == RIO_UNDO_NEXT)
			return next_page(r, i, le64toh(record.block));
		if (record.type == RIO_UNDO_BYTES || record.type == RIO_UNDO_SUPERSEDED)
			note_bytes(r, &record, address + at + sizeof(record));
		else
			r->log->counts.inconsistent++;
		at += le16toh(record.size);
	}
	return NONE;
}

/* Each log page is read once, so a damaged chain ends. */
static void read_operation(struct reader *r, uint32_t first)
{
	uint32_t before = r->log->nr_pages;

	r->ours = false;
	for (uint32_t i = first; i != NONE; )
		i = read_page(r, i);
	r->log->counts.operations += r->ours;
	if (!r->ours)
		r->log->nr_pages = before;
}

/* The last record of an operation is put back first; those of two operations do not overlap. */
static int by_block(const void *a, const void *b)
{
	const struct undo *x = a, *y = b;

	if (x->block != y->block)
		return x->block < y->block ? -1 : 1;
	return (x->number < y->number) - (x->number > y->number);
}

int log_read(struct operation_log *log, const struct registry *registry, struct memory *memory,
	     uint32_t dev, uint64_t device_blocks)
{
	struct reader r = { .log = log, .registry = registry, .memory = memory, .dev = dev,
			    .device_blocks = device_blocks,
			    .nr_pages = le32toh(registry->header.nr_log_pages) };

	*log = (struct operation_log){ .undos = calloc(r.nr_pages * PAGE_RECORDS + 1, sizeof(*log->undos)) };
	log->pages = calloc((size_t)r.nr_pages + 1, sizeof(*log->pages));
	r.words = calloc((size_t)r.nr_pages + 1, sizeof(*r.words));
	if (!log->undos || !log->pages || !r.words) {
		free(r.words);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < r.nr_pages; i++)
		read_word(&r, i);
	for (uint32_t i = 0; i < r.nr_pages; i++)
		if (r.words[i].good && r.words[i].kind == RIO_LOG_FIRST && r.words[i].used)
			read_operation(&r, i);
	free(r.words);
	qsort(log->undos, log->nr_undos, sizeof(*log->undos), by_block);
	return 0;
}

void log_end(const struct operation_log *log, const struct registry *registry, struct memory *memory)
{
	/* The first page of an operation comes first: without it the others count for nothing. */
	for (uint32_t i = 0; i < log->nr_pages; i++)
		registry_set_log_word(registry, memory, log->pages[i], 0);
}

void log_close(struct operation_log *log)
{
	free(log->undos);
	free(log->pages);
	log->undos = NULL;
	log->pages = NULL;
}

bool log_undo(const struct operation_log *log, struct memory *memory, uint64_t block,
	      uint8_t content[RIO_PAGE_SIZE])
{
	uint64_t low = 0, high = log->nr_undos;

	while (low < high) {
		uint64_t middle = low + (high - low) / 2;

		if (log->undos[middle].block < block)
			low = middle + 1;
		else
			high = middle;
	}
	for (; low < log->nr_undos && log->undos[low].block == block; low++) {
		const struct undo *undo = &log->undos[low];
		const void *old = memory_at(memory, undo->address, undo->length);

		if (!old)
			return false;
		memcpy(content + undo->offset, old, undo->length);
	}
	return true;
}
