// SPDX-License-Identifier: Apache-2.0
#include "file.h"

#include <stdlib.h>
#include <string.h>

#include "content.h"
#include "util.h"

static uint64_t end_of(const struct extent *extent)
{
	return extent->offset + extent->length;
}

/* The index of the first extent that ends after @offset; the count if none does. */
static size_t first_after(const struct file *file, uint64_t offset)
{
	size_t low = 0, high = file->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (end_of(&file->extent[middle]) > offset)
			high = middle;
		else
			low = middle + 1;
	}
	return low;
}

/* Puts @count extents in place of those from @first up to, not including, @last. */
static void splice(struct file *file, size_t first, size_t last, const struct extent *new, size_t count)
{
	size_t total = file->count - (last - first) + count;

	if (total > file->room) {
		file->room = total + total / 2 + 4;
		file->extent = grow(file->extent, file->room, sizeof(*file->extent));
	}
	memmove(file->extent + first + count, file->extent + last,
		(file->count - last) * sizeof(*file->extent));
	memcpy(file->extent + first, new, count * sizeof(*new));
	file->count = total;
}

void file_write(struct file *file, uint64_t offset, uint64_t length, uint64_t step)
{
	uint64_t end = offset + length;
	size_t first = first_after(file, offset);
	size_t last = first;
	struct extent new[3];
	size_t count = 0;

	while (last < file->count && file->extent[last].offset < end)
		last++;
	if (first < last && file->extent[first].offset < offset) {
		new[count] = file->extent[first];
		new[count].length = offset - new[count].offset;
		count++;
	}
	new[count++] = (struct extent){ offset, length, step };
	if (first < last && end_of(&file->extent[last - 1]) > end) {
		const struct extent *cut = &file->extent[last - 1];

		new[count++] = (struct extent){ end, end_of(cut) - end, cut->step };
	}
	splice(file, first, last, new, count);
	if (end > file->size)
		file->size = end;
}

void file_resize(struct file *file, uint64_t size)
{
	while (file->count && file->extent[file->count - 1].offset >= size)
		file->count--;
	if (file->count) {
		struct extent *last = &file->extent[file->count - 1];

		if (end_of(last) > size)
			last->length = size - last->offset;
	}
	file->size = size;
}

void file_read(const struct file *file, uint64_t seed, uint64_t offset, uint8_t *buffer, size_t length)
{
	uint64_t end = offset + length;

	memset(buffer, 0, length);
	for (size_t i = first_after(file, offset); i < file->count; i++) {
		const struct extent *extent = &file->extent[i];
		uint64_t from = extent->offset > offset ? extent->offset : offset;
		uint64_t to = end_of(extent) < end ? end_of(extent) : end;

		if (from >= end)
			break;
		content_fill(seed, extent->step, from, buffer + (from - offset), to - from);
	}
}

struct file file_copy(const struct file *file)
{
	struct file copy = { .size = file->size };

	for (size_t i = 0; i < file->count; i++)
		splice(&copy, i, i, &file->extent[i], 1);
	return copy;
}

void file_free(struct file *file)
{
	free(file->extent);
	*file = (struct file){ 0 };
}
