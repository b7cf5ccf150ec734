// SPDX-License-Identifier: Apache-2.0
#include "compare.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/*
 * Random bytes are right by chance once in 256: right bytes fewer than this between
 * wrong ones do not end a wrong stretch.
 */
#define GAP 64u
#define CUT_PAGE 4096u
#define SHOWN 8u	/* bytes of a stretch in its detail */

static uint8_t found[FILE_MAX], right[FILE_MAX], also_right[FILE_MAX];

struct comparison {
	struct report *report;
	const char *path;
	bool twin;
	uint64_t size;		/* of the file on disk */
	size_t read;		/* how much of it is in found[] */
	uint64_t seed;
};

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Whether the file is @file, size and bytes. */
static bool is(const struct comparison *comparison, const struct file *file)
{
	if (comparison->size != file->size || comparison->read != file->size)
		return false;
	file_read(file, comparison->seed, 0, right, file->size);
	return !memcmp(found, right, file->size);
}

static void hex(char text[2 * SHOWN + 1], const uint8_t *bytes, size_t count)
{
	for (size_t i = 0; i < least(count, SHOWN); i++)
		sprintf(text + 2 * i, "%02x", bytes[i]);
}

static void report_stretch(const struct comparison *comparison, size_t from, size_t to)
{
	char now[2 * SHOWN + 1], then[2 * SHOWN + 1];
	bool zero = true;

	for (size_t i = from; i < to; i++)
		zero = zero && !found[i];
	hex(now, found + from, to - from);
	hex(then, right + from, to - from);
	report_add(comparison->report, comparison->twin ? DIFFERENCE_TWIN : DIFFERENCE_CONTENT, comparison->path,
		   from, to - from, "found %s, should be %s%s", now, then, zero ? "; all of it is zero" : "");
}

/* Compares the first @size bytes, each of which is in right[], or in also_right[] if @mixed. */
static void compare_bytes(const struct comparison *comparison, size_t size, bool mixed)
{
	size_t from = 0, to = 0;	/* the wrong stretch so far; none when to is 0 */

	comparison->report->bytes += size;
	if (!memcmp(found, right, size))
		return;
	for (size_t i = 0; i < size; i++) {
		if (found[i] == right[i] || (mixed && found[i] == also_right[i]))
			continue;
		comparison->report->bytes_lost++;
		if (to && i - to >= GAP) {
			report_stretch(comparison, from, to);
			to = 0;
		}
		if (!to)
			from = i;
		to = i + 1;
	}
	if (to)
		report_stretch(comparison, from, to);
}

static void compare_size(const struct comparison *comparison, uint64_t low, uint64_t high)
{
	uint64_t size = comparison->size, bound = size < low ? low : high;

	if (size >= low && size <= high)
		return;
	if (size < low)
		comparison->report->bytes_lost += low - size;
	report_add(comparison->report, comparison->twin ? DIFFERENCE_TWIN : DIFFERENCE_SIZE, comparison->path,
		   least(size, bound), size < low ? low - size : size - high, "size %llu, should be %llu%s",
		   (unsigned long long)size, (unsigned long long)bound, low == high ? "" : " (step in flight)");
}

static void compare_exact(const struct comparison *comparison, const struct file *file)
{
	size_t size = least(comparison->read, file->size);

	compare_size(comparison, file->size, file->size);
	file_read(file, comparison->seed, 0, right, size);
	compare_bytes(comparison, size, false);
}

/* A write never makes a file smaller: @before's size is the lower bound. */
static void compare_mixed(const struct comparison *comparison, const struct file *before, const struct file *after)
{
	size_t size = least(comparison->read, after->size);

	compare_size(comparison, before->size, after->size);
	file_read(before, comparison->seed, 0, right, size);
	file_read(after, comparison->seed, 0, also_right, size);
	compare_bytes(comparison, size, true);
}

/*
 * A file system clears what is behind the new end in the page where that lies, so that nobody sees it when the
 * file grows again, and may write that page before the new size.
 */
static void compare_cut(const struct comparison *comparison, const struct file *before, const struct file *after)
{
	size_t size = least(comparison->read, before->size);
	size_t end = least(size, (after->size + CUT_PAGE - 1) / CUT_PAGE * CUT_PAGE);

	compare_size(comparison, before->size, before->size);
	file_read(before, comparison->seed, 0, right, size);
	memcpy(also_right, right, size);
	if (after->size < end)
		memset(also_right + after->size, 0, end - after->size);
	compare_bytes(comparison, size, true);
}

/* Reads as much as there is, up to FILE_MAX. False if that fails, after reporting it. */
static bool read_found(struct comparison *comparison, int fd)
{
	size_t want = least(comparison->size, FILE_MAX);

	while (comparison->read < want) {
		ssize_t got = pread(fd, found + comparison->read, want - comparison->read, (off_t)comparison->read);

		if (got > 0) {
			comparison->read += (size_t)got;
			continue;
		}
		report_add(comparison->report, DIFFERENCE_UNREADABLE, comparison->path, comparison->read,
			   want - comparison->read, "%s", got ? strerror(errno) : "ends before its size");
		return false;
	}
	return true;
}

void compare_file(struct report *report, int fd, const char *path, const struct expect *expect, uint64_t seed)
{
	const struct file *file = &expect->node->file, *other = expect->other;
	struct comparison comparison = { report, path, expect->node->twin, 0, 0, seed };
	struct stat stat;

	if (fstat(fd, &stat)) {
		report->bytes_lost += file->size;
		report_add(report, DIFFERENCE_UNREADABLE, path, 0, 0, "fstat: %s", strerror(errno));
		return;
	}
	comparison.size = (uint64_t)stat.st_size;
	if (!read_found(&comparison, fd)) {
		report->bytes_lost += file->size;
		return;
	}
	if (other && expect->mixed)
		compare_mixed(&comparison, file, other);
	/* Where it is neither, the one that it has the size of is meant. */
	else if (other && (is(&comparison, other) || (comparison.size == other->size && other->size != file->size)))
		compare_exact(&comparison, other);
	else if (other && expect->cut)
		compare_cut(&comparison, file, other);
	else
		compare_exact(&comparison, file);
}
