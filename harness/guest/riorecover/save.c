/* SPDX-License-Identifier: Apache-2.0 */
#include "save.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "crc32c.h"
#include "device.h"

_Static_assert(sizeof(struct save_header) == RIO_PAGE_SIZE, "a header is a page");

static uint64_t table_pages(uint64_t nr_pages)
{
	return (nr_pages * sizeof(struct save_entry) + RIO_PAGE_SIZE - 1) / RIO_PAGE_SIZE;
}

/* The offset of a page's content on the device. */
static off_t place(uint64_t nr_pages, uint64_t i)
{
	return (off_t)((1 + table_pages(nr_pages) + i) * RIO_PAGE_SIZE);
}

static bool read_all(int fd, void *to, size_t size, off_t offset)
{
	return pread(fd, to, size, offset) == (ssize_t)size;
}

static bool write_all(int fd, const void *from, size_t size, off_t offset)
{
	return pwrite(fd, from, size, offset) == (ssize_t)size;
}

static uint32_t header_crc(const struct save_header *header)
{
	return crc32c(0, header, offsetof(struct save_header, crc));
}

static bool read_header(int fd, struct save_header *header)
{
	uint64_t size;

	return !device_size(fd, &size) && read_all(fd, header, sizeof(*header), 0) &&
	       le64toh(header->magic) == SAVE_MAGIC &&
	       le32toh(header->version) == SAVE_VERSION &&
	       le32toh(header->crc) == header_crc(header) &&
	       le64toh(header->nr_pages) <= size / RIO_PAGE_SIZE &&
	       (uint64_t)place(le64toh(header->nr_pages), le64toh(header->nr_pages)) <= size;
}

static bool read_table(struct save *save)
{
	size_t size = save->nr_pages * sizeof(*save->table);
	uint64_t least = 0;

	save->table = malloc(size + 1);
	if (!save->table || !read_all(save->memory.fd, save->table, size, RIO_PAGE_SIZE) ||
	    le32toh(save->header.table_crc) != crc32c(0, save->table, size))
		return false;
	for (uint64_t i = 0; i < save->nr_pages; i++) {
		uint64_t address = le64toh(save->table[i].address);

		if (address < least || address % RIO_PAGE_SIZE)
			return false;
		least = address + 1;
	}
	return true;
}

/* Reads a page into the only buffer. */
static bool load(struct save *save, uint64_t i)
{
	return read_all(save->memory.fd, save->page, RIO_PAGE_SIZE, place(save->nr_pages, i)) &&
	       le32toh(save->table[i].crc) == crc32c(0, save->page, RIO_PAGE_SIZE);
}

static int by_address(const void *a, const void *b)
{
	uint64_t x = le64toh(((const struct save_entry *)a)->address);
	uint64_t y = le64toh(((const struct save_entry *)b)->address);

	return (x > y) - (x < y);
}

static void *saved_page(struct memory *memory, uint64_t address)
{
	struct save *save = (struct save *)memory;
	struct save_entry key = { .address = htole64(address) };
	struct save_entry *found = bsearch(&key, save->table, save->nr_pages,
					   sizeof(key), by_address);

	return found && load(save, (uint64_t)(found - save->table)) ? save->page : NULL;
}

bool save_open(struct save *save, const char *path)
{
	/* Opened for writing, because a save that cannot be invalidated must not be used. */
	int fd = open(path, O_RDWR | O_CLOEXEC);

	memset(save, 0, sizeof(*save));
	if (fd < 0)
		return false;
	save->memory = (struct memory){ .find = saved_page, .limit = UINT64_MAX, .fd = fd };
	if (read_header(fd, &save->header)) {
		save->nr_pages = le64toh(save->header.nr_pages);
		if (read_table(save)) {
			for (uint64_t i = 0; i < save->nr_pages; i++)
				save->refused += !load(save, i);
			return true;
		}
	}
	save_close(save);
	return false;
}

void save_close(struct save *save)
{
	free(save->table);
	close(save->memory.fd);
	save->table = NULL;
}

static const uint8_t *uuid_of(const struct cache *cache)
{
	return cache->registry.header.fs[cache->fs].uuid;
}

/* The addresses of all pages that a recovery reads, sorted and unique; NULL without memory. */
static struct save_entry *list(const struct cache *cache, struct memory *memory, uint64_t *nr)
{
	uint64_t first = registry_nr_pages(&cache->registry), all = first + cache->entries.nr_pages, n = 0;
	struct save_entry *table = calloc(all, sizeof(*table));

	if (!table)
		return NULL;
	for (uint64_t i = 0; i < all; i++) {
		uint64_t address = i < first ? registry_page(&cache->registry, i) :
			cache->entries.pages[i - first].address;

		if (memory_at(memory, address, RIO_PAGE_SIZE))
			table[n++].address = htole64(address);
	}
	qsort(table, n, sizeof(*table), by_address);
	*nr = 0;
	for (uint64_t i = 0; i < n; i++)
		if (!*nr || table[*nr - 1].address != table[i].address)
			table[(*nr)++] = table[i];
	return table;
}

/* Contents, then the table that has their checksums. */
static bool write_pages(int fd, struct memory *memory, struct save_entry *table, uint64_t nr)
{
	uint8_t page[RIO_PAGE_SIZE];

	for (uint64_t i = 0; i < nr; i++) {
		const void *content = memory_at(memory, le64toh(table[i].address), RIO_PAGE_SIZE);

		if (!content)
			return false;
		/* Checksum and write the same copy, because memory may change. */
		memcpy(page, content, sizeof(page));
		table[i].crc = htole32(crc32c(0, page, sizeof(page)));
		if (!write_all(fd, page, sizeof(page), place(nr, i)))
			return false;
	}
	return write_all(fd, table, nr * sizeof(*table), RIO_PAGE_SIZE);
}

static bool write_header(int fd, const struct save_header *header)
{
	return write_all(fd, header, sizeof(*header), 0) && !fsync(fd);
}

static bool write_save(int fd, const struct cache *cache, struct memory *memory,
		       struct save_entry *table, uint64_t nr)
{
	struct save_header header = { .magic = 0 };

	/* An older save must not look valid while it is overwritten. */
	if (!write_header(fd, &header) || !write_pages(fd, memory, table, nr) || fsync(fd))
		return false;
	header.magic = htole64(SAVE_MAGIC);
	header.version = htole32(SAVE_VERSION);
	header.table_crc = htole32(crc32c(0, table, nr * sizeof(*table)));
	header.boot_id = cache->registry.header.boot_id;
	header.nr_pages = htole64(nr);
	memcpy(header.uuid, uuid_of(cache), sizeof(header.uuid));
	header.crc = htole32(header_crc(&header));
	return write_header(fd, &header);
}

/* Is this crash saved already? A recovery that starts again must not lose that. */
static bool have_save(const char *path, const struct cache *cache, uint64_t *nr)
{
	struct save save;
	bool same;

	if (!save_open(&save, path))
		return false;
	same = save.header.boot_id == cache->registry.header.boot_id && !save.refused &&
	       !memcmp(save.header.uuid, uuid_of(cache), sizeof(save.header.uuid));
	*nr = save.nr_pages;
	save_close(&save);
	return same;
}

/* False with the reason in error if saving is not possible. */
static bool try_save(const char *path, const struct cache *cache, struct memory *memory,
		     uint64_t *nr, char error[128])
{
	struct save_entry *table = list(cache, memory, nr);
	int fd = open(path, O_RDWR | O_CLOEXEC);
	uint64_t size;

	errno = table ? errno : ENOMEM;
	if (!table || fd < 0 || device_size(fd, &size))
		snprintf(error, 128, "%s", strerror(errno));
	else if ((uint64_t)place(*nr, *nr) > size)
		snprintf(error, 128, "too small: %llu bytes needed, %llu there",
			 (unsigned long long)place(*nr, *nr), (unsigned long long)size);
	else if (errno = EIO, !write_save(fd, cache, memory, table, *nr))
		snprintf(error, 128, "%s", strerror(errno));
	free(table);
	if (fd >= 0)
		close(fd);
	return !*error;
}

void save_write(const char *path, const struct cache *cache, struct memory *memory,
		struct save_result *result)
{
	uint64_t nr = 0;

	if (!have_save(path, cache, &nr) &&
	    !try_save(path, cache, memory, &nr, result->error)) {
		fprintf(stderr, "riorecover: %s: memory not saved: %s; going on without\n",
			path, result->error);
		return;
	}
	result->pages = nr;
	result->bytes = (uint64_t)place(nr, nr);
}

int save_forget(const char *path)
{
	const struct save_header none = { .magic = 0 };
	struct save_header header;
	int err = 0, fd = open(path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		return 0; /* a device that cannot be opened was not written either */
	if (read_header(fd, &header) && !write_header(fd, &none)) {
		err = -EIO;
		fprintf(stderr, "riorecover: %s: the save there cannot be ended\n", path);
	}
	close(fd);
	return err;
}
