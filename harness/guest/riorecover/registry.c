/* SPDX-License-Identifier: Apache-2.0 */
#include "registry.h"

#include <endian.h>
#include <errno.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "crc32c.h"

_Static_assert(RIO_PAGE_SIZE == MEMORY_PAGE_SIZE, "an entry is about one page of memory");

static bool all_zero(const void *data, size_t size)
{
	const uint8_t *p = data;

	while (size--)
		if (*p++)
			return false;
	return true;
}

static uint64_t entry_pages(const struct rio_header *h)
{
	return (le64toh(h->nr_entries) * sizeof(struct rio_entry) + RIO_PAGE_SIZE - 1) / RIO_PAGE_SIZE;
}

/* Do entries and log lie one behind the other in the registry? Its size has been checked. */
static bool parts_fit(const struct rio_header *h)
{
	uint64_t room = le64toh(h->size) / RIO_PAGE_SIZE - 1;
	uint64_t log_start = le64toh(h->log_start) - le64toh(h->start);
	uint64_t log_pages = le32toh(h->nr_log_pages);

	if (le64toh(h->nr_entries) > UINT32_MAX || entry_pages(h) > room)
		return false;
	return !log_pages ||
	       (log_start % RIO_PAGE_SIZE == 0 && log_start / RIO_PAGE_SIZE > entry_pages(h) &&
		log_start / RIO_PAGE_SIZE <= room + 1 &&
		log_pages <= room + 1 - log_start / RIO_PAGE_SIZE);
}

static bool phases_are_known(const struct rio_header *h)
{
	for (uint32_t i = 0; i < le32toh(h->nr_fs); i++)
		if (h->fs[i].dev && (le32toh(h->fs[i].phase) < RIO_ACTIVE ||
				     le32toh(h->fs[i].phase) > RIO_RECOVERING))
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
	if (!parts_fit(h))
		return "more entries or log pages than fit";
	if (le32toh(h->nr_fs) > RIO_MAX_FS || !phases_are_known(h))
		return "impossible state";
	return NULL;
}

/*
 * Of a free entry the word is nothing but its check. Memory that is new has no such word, and memory that a loss of
 * power filled with noise has one in 2^48.
 */
static bool has_free_entries(struct memory *memory, uint64_t start, uint64_t size)
{
	unsigned int found = 0;

	for (uint64_t at = start + RIO_PAGE_SIZE; found < RIO_ENOUGH_FREE && at < start + size;
	     at += sizeof(struct rio_entry)) {
		const struct rio_entry *entry = memory_at(memory, at, sizeof(*entry));
		uint64_t word = entry ? le64toh(entry->word) : 0;

		found += word && !(word << (64 - RIO_WORD_CHECK_SHIFT));
	}
	return found == RIO_ENOUGH_FREE;
}

enum registry_verdict registry_open(struct registry *registry,
				    struct memory *memory, uint64_t start,
				    uint64_t size)
{
	const char *complaint[2] = { "cannot be read", "cannot be read" };
	bool written = false, named = false;
	unsigned int valid = 0;

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
		named |= le64toh(copy.magic) == RIO_MAGIC;
		complaint[i] = header_complaint(&copy, start, size);
		if (complaint[i])
			continue;
		if (valid++ && (int32_t)(le32toh(copy.seq) - le32toh(registry->header.seq)) <= 0)
			continue;
		registry->header = copy;
		registry->copy = i;
	}
	registry->damaged = valid == 1;
	if (registry->damaged)
		fprintf(stderr, "riorecover: a copy of the registry's header is damaged (%s); the other holds\n",
			complaint[0] ? complaint[0] : complaint[1]);
	if (valid)
		return REGISTRY_VALID;
	registry->lost = named || has_free_entries(memory, start, size);
	if (!written && !registry->lost) {
		fprintf(stderr, "riorecover: no file cache to recover: cold start\n");
		return REGISTRY_NONE;
	}
	fprintf(stderr, "riorecover: registry at %#llx is damaged (header copies: %s; %s): cold start\n",
		(unsigned long long)start, complaint[0], complaint[1]);
	return REGISTRY_DAMAGED;
}

int registry_find(const struct registry *registry, const uint8_t uuid[16])
{
	for (uint32_t i = 0; i < le32toh(registry->header.nr_fs); i++) {
		const struct rio_fs *fs = &registry->header.fs[i];

		if (fs->dev && !memcmp(fs->uuid, uuid, sizeof(fs->uuid)))
			return (int)i;
	}
	return -1;
}

bool registry_is_active(const struct registry *registry, int fs)
{
	return registry->header.fs[fs].dev &&
	       le32toh(registry->header.fs[fs].phase) != RIO_RECOVERED;
}

unsigned int registry_nr_active(const struct registry *registry, int but)
{
	unsigned int nr = 0;

	for (int i = 0; i < (int)le32toh(registry->header.nr_fs); i++)
		nr += i != but && registry_is_active(registry, i);
	return nr;
}

int registry_only_active(const struct registry *registry)
{
	int found = -1;

	for (uint32_t i = 0; i < le32toh(registry->header.nr_fs); i++) {
		if (!registry_is_active(registry, (int)i))
			continue;
		if (found >= 0)
			return -1;
		found = (int)i;
	}
	return found;
}

uint64_t registry_nr_pages(const struct registry *registry)
{
	return 1 + entry_pages(&registry->header) + le32toh(registry->header.nr_log_pages);
}

uint64_t registry_page(const struct registry *registry, uint64_t i)
{
	uint64_t before_log = 1 + entry_pages(&registry->header);

	if (i < before_log)
		return registry->start + i * RIO_PAGE_SIZE;
	return le64toh(registry->header.log_start) + (i - before_log) * RIO_PAGE_SIZE;
}

uint32_t registry_seed(const struct registry *registry, uint64_t address)
{
	uint64_t id[2] = { registry->header.boot_id, htole64(address / RIO_PAGE_SIZE) };

	return crc32c(0, id, sizeof(id));
}

uint64_t registry_log_page(const struct registry *registry, uint32_t i)
{
	return le64toh(registry->header.log_start) + (uint64_t)i * RIO_PAGE_SIZE;
}

uint64_t registry_word(uint64_t content, uint32_t seed)
{
	uint64_t unchecked = htole64(content);

	return content | (uint64_t)(crc32c(seed, &unchecked, sizeof(unchecked)) & 0xffff) << RIO_WORD_CHECK_SHIFT;
}

bool registry_word_holds(uint64_t word, uint32_t seed)
{
	return word == registry_word(word & (((uint64_t)1 << RIO_WORD_CHECK_SHIFT) - 1), seed);
}

void registry_set_log_word(const struct registry *registry, struct memory *memory, uint32_t i, uint64_t content)
{
	uint64_t address = registry_log_page(registry, i);
	uint64_t *word = memory_at(memory, address, sizeof(*word));

	if (word)
		__atomic_store_n(word, htole64(registry_word(content, registry_seed(registry, address))),
				 __ATOMIC_RELEASE);
}

int registry_set_phase(struct registry *registry, struct memory *memory, int fs, enum rio_phase phase)
{
	struct rio_header *h = &registry->header;

	h->fs[fs].phase = htole32(phase);
	for (int i = 0; i < 2; i++) {
		/* The one that holds last, so one copy is valid at any time. */
		int copy = i ? registry->copy : !registry->copy;
		void *at = memory_at(memory, registry->start + (uint64_t)copy * RIO_HEADER_STRIDE,
				     sizeof(*h));

		if (!at)
			return -EFAULT;
		h->seq = htole32(le32toh(h->seq) + 1);
		h->crc = htole32(crc32c(0, h, offsetof(struct rio_header, crc)));
		memcpy(at, h, sizeof(*h));
	}
	return 0;
}
