/* SPDX-License-Identifier: Apache-2.0 */
#include "registry.h"

#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crc32c.h"

_Static_assert(RIO_PAGE_SIZE == MEMORY_PAGE_SIZE, "an entry is about one page of memory");

/* A file's last page, so that index * RIO_PAGE_SIZE fits an off_t. */
#define MAX_INDEX (INT64_MAX / RIO_PAGE_SIZE - 1)
/* ext4: inodes below 11 are the file system's own (s_first_ino), except the root. */
#define FIRST_INO 11

static bool all_zero(const void *data, size_t size)
{
	const uint8_t *p = data;

	while (size--)
		if (*p++)
			return false;
	return true;
}

static const char *header_complaint(const struct rio_header *h, uint64_t start,
				    uint64_t size)
{
	if (le64toh(h->magic) != RIO_MAGIC)
		return "wrong magic number";
	if (le32toh(h->crc) != crc32c(0, h, offsetof(struct rio_header, crc)))
		return "wrong checksum";
	if (le32toh(h->version) != RIO_VERSION)
		return "unknown version";
	if (le32toh(h->flags) & ~(uint32_t)RIO_CHECKSUMS)
		return "unknown flags";
	if (le64toh(h->start) != start || le64toh(h->size) > size ||
	    le64toh(h->size) < RIO_PAGE_SIZE)
		return "written for another place";
	if (le64toh(h->nr_pairs) >
	    (le64toh(h->size) - RIO_PAGE_SIZE) / sizeof(struct rio_pair) ||
	    le64toh(h->first_pfn) > UINT32_MAX)
		return "more entries than fit";
	if (le32toh(h->nr_fs) > RIO_MAX_FS ||
	    (le32toh(h->phase) != RIO_ACTIVE &&
	     le32toh(h->phase) != RIO_RECOVERED))
		return "impossible state";
	return NULL;
}

/* Operations whose entries do not count yet; a damaged slot of the table has none. */
static void read_pending(struct registry *registry, struct memory *memory)
{
	struct rio_pending table[RIO_MAX_PENDING];
	const void *at = memory_at(memory, registry->start + RIO_PENDING_OFFSET, sizeof(table));

	if (!at)
		return;
	memcpy(table, at, sizeof(table));
	for (int i = 0; i < RIO_MAX_PENDING; i++)
		if (table[i].operation && table[i].operation == (uint32_t)~table[i].inverted)
			registry->pending[registry->nr_pending++] = table[i].operation;
}

static bool is_pending(const struct registry *registry, const struct rio_entry *entry)
{
	if (!(entry->state & RIO_METADATA))
		return false;
	for (int i = 0; i < registry->nr_pending; i++)
		if (registry->pending[i] == entry->generation)
			return true;
	return false;
}

bool registry_is_recovered(const struct registry *registry)
{
	return le32toh(registry->header.phase) == RIO_RECOVERED;
}

enum registry_verdict registry_open(struct registry *registry,
				    struct memory *memory, uint64_t start,
				    uint64_t size)
{
	const char *complaint[2] = { "cannot be read", "cannot be read" };
	bool written = false, found = false;

	memset(registry, 0, sizeof(*registry));
	registry->start = start;
	for (int i = 0; i < 2; i++) {
		struct rio_header copy;
		const void *at = memory_at(memory, start + (uint64_t)i * RIO_HEADER_STRIDE,
					   sizeof(copy));

		if (!at)
			continue;
		memcpy(&copy, at, sizeof(copy));
		written |= !all_zero(&copy, sizeof(copy));
		complaint[i] = header_complaint(&copy, start, size);
		if (complaint[i])
			continue;
		if (!found || (int32_t)(le32toh(copy.seq) -
					le32toh(registry->header.seq)) > 0)
			registry->header = copy;
		found = true;
	}
	if (found && !registry_is_recovered(registry)) {
		read_pending(registry, memory);
		return REGISTRY_VALID;
	}
	if (found || !written) {
		fprintf(stderr, "riorecover: no file cache to recover: cold start\n");
		return REGISTRY_NONE;
	}
	fprintf(stderr, "riorecover: registry at %#llx is damaged (header copies: %s; %s): cold start\n",
		(unsigned long long)start, complaint[0], complaint[1]);
	return REGISTRY_DAMAGED;
}

uint32_t registry_find_fs(const struct registry *registry,
			  const uint8_t uuid[16])
{
	for (uint32_t i = 0; i < le32toh(registry->header.nr_fs); i++) {
		const struct rio_fs *fs = &registry->header.fs[i];

		if (fs->dev && !memcmp(fs->uuid, uuid, sizeof(fs->uuid)))
			return le32toh(fs->dev);
	}
	return 0;
}

static bool entry_holds(const struct rio_entry *entry, uint32_t seed)
{
	return le32toh(entry->crc) ==
	       crc32c(seed, entry, offsetof(struct rio_entry, crc));
}

/* The newest valid copy; NULL if neither is valid. */
static const struct rio_entry *choose(const struct rio_pair *pair,
				      uint32_t seed, bool *fallback)
{
	bool holds[2] = { entry_holds(&pair->copy[0], seed),
			  entry_holds(&pair->copy[1], seed) };

	*fallback = false;
	if (holds[0] && holds[1])
		return &pair->copy[(int8_t)(pair->copy[1].seq -
					    pair->copy[0].seq) > 0];
	for (int i = 0; i < 2; i++) {
		if (!holds[i])
			continue;
		/* Before its second state a page has only one copy; nothing is missing. */
		*fallback = !all_zero(&pair->copy[!i], sizeof(pair->copy[0]));
		return &pair->copy[i];
	}
	return NULL;
}

static int state_of(const struct rio_entry *entry)
{
	return entry->state & RIO_STATE_MASK;
}

/* Valid combinations of state and flags: rio_registry.h. */
static bool state_makes_sense(const struct rio_entry *entry)
{
	int flags = entry->state & ~RIO_STATE_MASK;

	if (flags & ~(RIO_METADATA | RIO_CHANGING))
		return false;
	if (state_of(entry) == RIO_SHADOWED)
		return flags == RIO_METADATA && entry->ino;
	return state_of(entry) <= RIO_DIRTY;
}

/* A checksum proves who wrote an entry, not that it is consistent. */
static bool makes_sense(const struct rio_entry *entry, uint64_t device_blocks)
{
	uint64_t index = le64toh(entry->index);

	if (le16toh(entry->bytes) > RIO_PAGE_SIZE || !state_makes_sense(entry))
		return false;
	if (state_of(entry) == RIO_FREE)
		return true;
	if (entry->state & RIO_METADATA)
		return index < device_blocks && le16toh(entry->bytes) == RIO_PAGE_SIZE;
	return index <= MAX_INDEX;
}

/* Compares a page's content with its checksum. */
static void check_content(struct registry *registry, const struct rio_entry *entry,
			  const void *content)
{
	struct checksum_counts *counts = &registry->checksums;

	if (!(le32toh(registry->header.flags) & RIO_CHECKSUMS))
		return;
	if (entry->state & RIO_CHANGING) {
		counts->changing++;
		return;
	}
	if (le32toh(entry->data_crc) == crc32c(0, content, RIO_PAGE_SIZE)) {
		counts->intact++;
		return;
	}
	if (counts->corrupt < MAX_MISMATCHES)
		counts->mismatches[counts->corrupt] = (struct mismatch){
			.index = le64toh(entry->index),
			.ino = entry->state & RIO_METADATA ? 0 : le32toh(entry->ino),
			.dirty = state_of(entry) >= RIO_DIRTY,
			.metadata = entry->state & RIO_METADATA,
		};
	counts->corrupt++;
}

static void note_dirty(struct registry *registry, const struct rio_entry *entry,
		       uint64_t address)
{
	bool metadata = entry->state & RIO_METADATA;

	/* For metadata, ino and generation are not part of the block's address. */
	registry->pages[registry->nr_pages++] = (struct page){
		.address = address,
		.index = le64toh(entry->index),
		.ino = metadata ? 0 : le32toh(entry->ino),
		.generation = metadata ? 0 : le32toh(entry->generation),
	};
}

/* Metadata in the middle of a change: restore the old version, from its shadow or from disk. */
static void note_changing(struct registry *registry, struct memory *memory,
			  const struct rio_entry *entry, const void *content)
{
	uint64_t shadow = (uint64_t)le32toh(entry->ino) * RIO_PAGE_SIZE;
	const void *old;

	/* The checksum is of the new version, unless the entry is SHADOWED. */
	if (state_of(entry) != RIO_SHADOWED && content)
		check_content(registry, entry, content);
	if (!shadow) {
		registry->counts.pending++;
		return;
	}
	old = memory_at(memory, shadow, RIO_PAGE_SIZE);
	if (!old) {
		registry->counts.unreadable++;
		return;
	}
	if (state_of(entry) == RIO_SHADOWED)
		check_content(registry, entry, old);
	note_dirty(registry, entry, shadow);
	registry->counts.shadowed++;
}

/* An entry of the file system that is recovered. */
static void note(struct registry *registry, struct memory *memory,
		 const struct rio_entry *entry, uint64_t address)
{
	bool dirty = state_of(entry) == RIO_DIRTY, metadata = entry->state & RIO_METADATA;
	const void *content = memory_at(memory, address, RIO_PAGE_SIZE);

	if (dirty && !metadata && le32toh(entry->ino) < FIRST_INO) {
		registry->counts.senseless++;
		return;
	}
	if (state_of(entry) == RIO_SHADOWED || is_pending(registry, entry)) {
		note_changing(registry, memory, entry, content);
		return;
	}
	if (content)
		check_content(registry, entry, content);
	if (!dirty) {
		registry->counts.clean++;
	} else if (!content) {
		registry->counts.unreadable++;
	} else {
		note_dirty(registry, entry, address);
		*(metadata ? &registry->counts.dirty_metadata : &registry->counts.dirty_data) += 1;
	}
}

static void look_at(struct registry *registry, struct memory *memory,
		    const struct rio_pair *pair, uint64_t pfn, uint32_t dev,
		    uint64_t device_blocks)
{
	uint64_t id[2] = { registry->header.boot_id, htole64(pfn) };
	const struct rio_entry *entry;
	bool fallback;

	if (all_zero(pair, sizeof(*pair))) {
		registry->counts.free++;
		return;
	}
	entry = choose(pair, crc32c(0, id, sizeof(id)), &fallback);
	if (!entry) {
		registry->counts.rejected++;
		return;
	}
	if (!makes_sense(entry, device_blocks)) {
		registry->counts.senseless++;
		return;
	}
	registry->counts.fallback += fallback;
	if (state_of(entry) == RIO_FREE)
		registry->counts.free++;
	else if (le32toh(entry->dev) != dev)
		registry->counts.foreign++;
	else
		note(registry, memory, entry, pfn * RIO_PAGE_SIZE);
}

static int by_place(const void *a, const void *b)
{
	const struct page *x = a, *y = b;

	if (x->ino != y->ino)
		return x->ino < y->ino ? -1 : 1;
	if (x->generation != y->generation)
		return x->generation < y->generation ? -1 : 1;
	if (x->index != y->index)
		return x->index < y->index ? -1 : 1;
	return (x->address > y->address) - (x->address < y->address);
}

int registry_collect(struct registry *registry, struct memory *memory,
		     uint32_t dev, uint64_t device_blocks)
{
	uint64_t nr = le64toh(registry->header.nr_pairs);
	uint64_t first = le64toh(registry->header.first_pfn);

	registry->pages = malloc((nr + 1) * sizeof(*registry->pages));
	if (!registry->pages)
		return -ENOMEM;
	for (uint64_t i = 0; i < nr; i++) {
		struct rio_pair pair;
		const void *at = memory_at(memory, registry->start + RIO_PAGE_SIZE +
					   i * sizeof(pair), sizeof(pair));

		registry->counts.pairs++;
		if (!at) {
			registry->counts.unreadable++;
			continue;
		}
		memcpy(&pair, at, sizeof(pair));
		look_at(registry, memory, &pair, first + i, dev, device_blocks);
	}
	qsort(registry->pages, registry->nr_pages, sizeof(*registry->pages),
	      by_place);
	return 0;
}

int registry_mark_recovered(struct registry *registry, struct memory *memory)
{
	struct rio_header *h = &registry->header;

	h->phase = htole32(RIO_RECOVERED);
	for (int i = 0; i < 2; i++) {
		void *at;

		/* One copy after the other, so one copy is valid at any time. */
		h->seq = htole32(le32toh(h->seq) + 1);
		h->crc = htole32(crc32c(0, h, offsetof(struct rio_header, crc)));
		at = memory_at(memory, registry->start +
			       (le32toh(h->seq) & 1) * RIO_HEADER_STRIDE, sizeof(*h));
		if (!at)
			return -EFAULT;
		memcpy(at, h, sizeof(*h));
	}
	return 0;
}

void registry_close(struct registry *registry)
{
	free(registry->pages);
	registry->pages = NULL;
}
