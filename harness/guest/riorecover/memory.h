/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory of the crashed kernel: /dev/mem in stage 0, an image on the host, or a save
 * (save.h).
 */
#ifndef MEMORY_H
#define MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define MEMORY_PAGE_SIZE 4096

struct memory {
	/* The page at that address, NULL if it is not there. */
	void *(*find)(struct memory *memory, uint64_t address);
	uint64_t limit;		/* highest address plus one that may be asked for */
	int fd;
	/* Of memory that is mapped: */
	bool writable;
	size_t nr_chunks;
	void **chunks;		/* mapped on first use; MAP_FAILED where refused */
};

/* 0, or -errno with a line on stderr. */
int memory_open(struct memory *memory, const char *path, uint64_t limit,
		bool writable);
void memory_close(struct memory *memory);

/*
 * Returns size bytes at a physical address, which must not cross a page. NULL if they lie
 * beyond the limit or are not available (RAM of the running kernel, end of image, not saved).
 * Valid until the next call.
 */
void *memory_at(struct memory *memory, uint64_t address, size_t size);

#endif
