/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one file must hold: its size, and which step wrote which bytes. Bytes
 * that no step wrote are holes and read as zero. No content is kept in memory.
 */
#ifndef MEMTEST_FILE_H
#define MEMTEST_FILE_H

#include <stddef.h>
#include <stdint.h>

/* No file grows beyond this, so one fits in a buffer. */
#define FILE_MAX (256u * 1024)

struct extent {
	uint64_t offset;
	uint64_t length;
	uint64_t step;
};

struct file {
	uint64_t size;
	struct extent *extent;	/* by offset, none overlapping, none past the size */
	size_t count;
	size_t room;
};

void file_write(struct file *file, uint64_t offset, uint64_t length, uint64_t step);
void file_resize(struct file *file, uint64_t size);

/* The right bytes at @offset and following; zero past the size. */
void file_read(const struct file *file, uint64_t seed, uint64_t offset, uint8_t *buffer, size_t length);

struct file file_copy(const struct file *file);
void file_free(struct file *file);

#endif
