/* SPDX-License-Identifier: Apache-2.0 */
#include "entries.h"

#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "crc32c.h"

/* A file's last page, so that index * RIO_PAGE_SIZE fits an off_t. */
#define MAX_INDEX (INT64_MAX / RIO_PAGE_SIZE - 1)
/* ext4: inodes below 11 are the file system's own (s_first_ino), except the root. */
#define FIRST_INO 11

/* What is being read, and into what. */
struct reader {
	struct entries *entries;
	const struct registry *registry;
	struct memory *memory;
	uint32_t dev;
	uint64_t device_blocks;
};

/* An entry whose word and identity are undamaged. */
struct listed {
	struct page page;
	uint32_t data_crc;
	bool dirty, metadata, changing;
};

static uint8_t state_of(uint64_t word)
{
	return (uint8_t)(word >> RIO_WORD_STATE_SHIFT);
}

/* A check proves who wrote a word, not that it is consistent. */
static bool word_makes_sense(uint64_t word)
{
	uint8_t state = state_of(word);

	return !(word >> 40 & 0xff) && (state & RIO_STATE_MASK) <= RIO_DIRTY &&
	       !(state & ~(RIO_STATE_MASK | RIO_METADATA | RIO_CHANGING));
}

static bool identity_holds(const struct rio_entry *entry, uint32_t seed)
{
	size_t from = offsetof(struct rio_entry, ino);

	return le32toh(entry->crc) ==
	       crc32c(seed, (const char *)entry + from, offsetof(struct rio_entry, crc) - from);
}

static struct listed listed(const struct rio_entry *entry, uint64_t address)
{
	uint64_t word = le64toh(entry->word);

	return (struct listed){
		.page = { address, le64toh(entry->index), le32toh(entry->ino), le32toh(entry->generation) },
		.data_crc = (uint32_t)word,
		.dirty = (state_of(word) & RIO_STATE_MASK) == RIO_DIRTY,
		.metadata = state_of(word) & RIO_METADATA,
		.changing = state_of(word) & RIO_CHANGING,
	};
}

static bool identity_makes_sense(struct reader *r, const struct listed *it)
{
	const struct page *page = &it->page;

	if (!it->metadata)
		return page->index <= MAX_INDEX && (!it->dirty || page->ino >= FIRST_INO);
	if (page->index >= r->device_blocks) {
		r->entries->counts.behind++;
		return false;
	}
	return !page->ino && !page->generation;
}

/* Compares a page's content with its checksum. */
static void check_content(struct reader *r, const struct listed *it, const void *content)
{
	struct checksum_counts *counts = &r->entries->checksums;

	if (!(le32toh(r->registry->header.flags) & RIO_CHECKSUMS))
		return;
	if (it->changing) {
		counts->changing++;
		return;
	}
	if (it->data_crc == crc32c(0, content, RIO_PAGE_SIZE)) {
		counts->intact++;
		return;
	}
	if (counts->corrupt < MAX_MISMATCHES)
		counts->mismatches[counts->corrupt] = (struct mismatch){
			.index = it->page.index,
			.ino = it->page.ino,
			.dirty = it->dirty,
			.metadata = it->metadata,
		};
	counts->corrupt++;
}

/* An entry of the file system that is recovered. */
static void note(struct reader *r, const struct listed *it)
{
	struct entries *entries = r->entries;
	const void *content = memory_at(r->memory, it->page.address, RIO_PAGE_SIZE);

	if (content)
		check_content(r, it, content);
	if (!it->dirty) {
		entries->counts.clean++;
		return;
	}
	/* What cannot be read will fail to be restored. Nothing else must be put in its place. */
	entries->pages[entries->nr_pages++] = it->page;
	if (!content)
		entries->counts.unreadable++;
	else
		*(it->metadata ? &entries->counts.dirty_metadata : &entries->counts.dirty_data) += 1;
}

static void look_at(struct reader *r, const struct rio_entry *entry, uint64_t address)
{
	struct entry_counts *counts = &r->entries->counts;
	uint32_t seed = registry_seed(r->registry, address);
	uint64_t word = le64toh(entry->word);
	struct listed it = listed(entry, address);

	if (!registry_word_holds(word, seed))
		counts->rejected++;
	else if (!word_makes_sense(word))
		counts->inconsistent++;
	else if ((state_of(word) & RIO_STATE_MASK) == RIO_FREE)
		counts->free++;
	else if (!identity_holds(entry, seed))
		counts->rejected++;
	else if (le32toh(entry->dev) != r->dev)
		counts->foreign++;
	else if (!identity_makes_sense(r, &it))
		counts->inconsistent++;
	else
		note(r, &it);
}

static int by_place(const void *a, const void *b)
{
	const struct page *x = a, *y = b;

	if (x->ino != y->ino)
		return x->ino < y->ino ? -1 : 1;
	if (x->generation != y->generation)
		return x->generation < y->generation ? -1 : 1;
	return (x->index > y->index) - (x->index < y->index);
}

static int by_place_and_address(const void *a, const void *b)
{
	const struct page *x = a, *y = b;
	int place = by_place(a, b);

	return place ? place : (x->address > y->address) - (x->address < y->address);
}

int entries_read(struct entries *entries, const struct registry *registry, struct memory *memory,
		 uint32_t dev, uint64_t device_blocks)
{
	struct reader r = { entries, registry, memory, dev, device_blocks };
	uint64_t nr = le64toh(registry->header.nr_entries);

	*entries = (struct entries){ .pages = malloc((nr + 1) * sizeof(*entries->pages)) };
	if (!entries->pages)
		return -ENOMEM;
	entries->counts.entries = nr;
	for (uint64_t i = 0; i < nr; i++) {
		struct rio_entry entry;
		const void *at = memory_at(memory, registry->start + RIO_PAGE_SIZE + i * sizeof(entry),
					   sizeof(entry));

		if (!at) {
			entries->counts.unreadable++;
			continue;
		}
		memcpy(&entry, at, sizeof(entry));
		look_at(&r, &entry, i * RIO_PAGE_SIZE);
	}
	qsort(entries->pages, entries->nr_pages, sizeof(*entries->pages), by_place_and_address);
	for (uint64_t i = 1; i < entries->nr_pages; i++)
		entries->counts.duplicates += !by_place(&entries->pages[i - 1], &entries->pages[i]);
	return 0;
}

void entries_close(struct entries *entries)
{
	free(entries->pages);
	entries->pages = NULL;
}

const struct page *entries_find_block(const struct entries *entries, uint64_t block)
{
	struct page key = { .index = block };

	return bsearch(&key, entries->pages, entries->nr_pages, sizeof(key), by_place);
}
