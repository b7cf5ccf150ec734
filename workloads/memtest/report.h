/* SPDX-License-Identifier: Apache-2.0 */
/* The differences that verify finds, and what it looked at. */
#ifndef MEMTEST_REPORT_H
#define MEMTEST_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How many differences are kept; more are only counted, so that a report has a bound. */
#define REPORT_LISTED 100

enum difference_kind {
	DIFFERENCE_MISSING,
	DIFFERENCE_EXTRA,
	DIFFERENCE_TYPE,
	DIFFERENCE_SIZE,	/* offset, length: the bytes that there are too few or too many */
	DIFFERENCE_CONTENT,	/* offset, length: from the first to the last byte of a wrong stretch */
	DIFFERENCE_TWIN,	/* as size or content, of a file that nobody wrote after prepare */
	DIFFERENCE_UNREADABLE,
};

struct difference {
	enum difference_kind kind;
	char *path;
	uint64_t offset;
	uint64_t length;
	char *detail;
};

struct report {
	uint64_t done;
	uint64_t intent;
	uint64_t files;		/* compared, whether equal or not */
	uint64_t dirs;
	uint64_t bytes;
	uint64_t count;		/* of all differences */
	struct difference listed[REPORT_LISTED];
};

void report_add(struct report *report, enum difference_kind kind, const char *path, uint64_t offset,
		uint64_t length, const char *format, ...) __attribute__((format(printf, 6, 7)));

/* One JSON object, or a line for each difference and one for the whole. */
void report_print(const struct report *report, bool json);

void report_free(struct report *report);

#endif
