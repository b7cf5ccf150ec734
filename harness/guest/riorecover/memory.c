/* SPDX-License-Identifier: Apache-2.0 */
#include "memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The kernel refuses a mapping that touches its own RAM, so memory is mapped in chunks. */
#define CHUNK ((uint64_t)2 << 20)

static void *mapped_page(struct memory *memory, uint64_t address)
{
	size_t i = address / CHUNK;

	if (!memory->chunks[i])
		memory->chunks[i] = mmap(NULL, CHUNK,
					 PROT_READ | (memory->writable ? PROT_WRITE : 0),
					 MAP_SHARED, memory->fd,
					 (off_t)(i * CHUNK));
	if (memory->chunks[i] == MAP_FAILED)
		return NULL;
	return (char *)memory->chunks[i] + address % CHUNK;
}

int memory_open(struct memory *memory, const char *path, uint64_t limit,
		bool writable)
{
	struct stat st;
	int fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st)) {
		int err = errno;

		fprintf(stderr, "riorecover: %s: %s\n", path, strerror(err));
		if (fd >= 0)
			close(fd);
		return -err;
	}
	/* A mapping may extend beyond the end of an image, but touching it there is fatal. */
	if (S_ISREG(st.st_mode) && (uint64_t)st.st_size < limit)
		limit = (uint64_t)st.st_size & ~(uint64_t)(MEMORY_PAGE_SIZE - 1);

	memory->find = mapped_page;
	memory->fd = fd;
	memory->writable = writable;
	memory->limit = limit;
	memory->nr_chunks = limit / CHUNK + 1;
	memory->chunks = calloc(memory->nr_chunks, sizeof(void *));
	if (!memory->chunks) {
		fprintf(stderr, "riorecover: %s: not enough memory for --limit\n", path);
		close(fd);
		return -ENOMEM;
	}
	return 0;
}

void memory_close(struct memory *memory)
{
	for (size_t i = 0; i < memory->nr_chunks; i++)
		if (memory->chunks[i] && memory->chunks[i] != MAP_FAILED)
			munmap(memory->chunks[i], CHUNK);
	free(memory->chunks);
	close(memory->fd);
}

void *memory_at(struct memory *memory, uint64_t address, size_t size)
{
	size_t offset = address % MEMORY_PAGE_SIZE;
	char *start;

	if (address >= memory->limit || memory->limit - address < size ||
	    offset + size > MEMORY_PAGE_SIZE)
		return NULL;
	start = memory->find(memory, address - offset);
	return start ? start + offset : NULL;
}
