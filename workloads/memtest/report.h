/* SPDX-License-Identifier: Apache-2.0 */
/* The differences that verify finds, and what it looked at. */
#ifndef MEMTEST_REPORT_H
#define MEMTEST_REPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "steps.h"

/* How many differences are kept; more are only counted, so that a report has a bound. */
#define REPORT_LISTED 100

enum difference_kind {
	DIFFERENCE_MISSING,
	DIFFERENCE_EXTRA,
	DIFFERENCE_TYPE,
	DIFFERENCE_SIZE,	/* offset, length: the bytes that there are too few or too many */
	DIFFERENCE_CONTENT,	/* offset, length: from the first to the last byte of a wrong stretch */
	DIFFERENCE_TWIN,	/* as size or content, of a file that nobody wrote after prepare */
	DIFFERENCE_METADATA,	/* mode, owner, link count, extended attributes */
	DIFFERENCE_UNREADABLE,
};

/* A step that failed before the crash, and what verify found where it worked. */
struct frozen {
	const struct failure *failure;
	char path[PATH_SIZE];
	char expected[2 * PATH_SIZE];	/* what may be there */
	bool reached;			/* false: a directory above it is not as it must be */
	uint64_t differences;
};

struct difference {
	struct frozen *frozen;		/* NULL: no step had failed there */
	enum difference_kind kind;
	char *path;
	uint64_t offset;
	uint64_t length;
	char *detail;
};

struct report {
	uint64_t done;
	uint64_t intent;
	uint64_t oldest;	/* as in the options */
	uint64_t kept;		/* the step after which the directory is equal, if it is */
	uint64_t files;		/* compared, whether equal or not */
	uint64_t dirs;
	uint64_t bytes;
	uint64_t files_expected;	/* of the model */
	uint64_t bytes_expected;
	uint64_t files_lost;	/* of these, not there or wrong in any way */
	uint64_t bytes_lost;	/* of these, not there, wrong or unreadable */
	uint64_t count;		/* of all differences */
	struct difference listed[REPORT_LISTED];
	struct frozen *frozen;	/* for each of the model's failures */
	size_t frozen_count;
	struct frozen *at;	/* what is being compared; NULL: nothing frozen */
};

/* Lists the steps that failed; the model stays where it is until report_free(). */
void report_failures(struct report *report, const struct model *model);

void report_add(struct report *report, enum difference_kind kind, const char *path, uint64_t offset,
		uint64_t length, const char *format, ...) __attribute__((format(printf, 6, 7)));

/* One JSON object, or a line for each difference and one for the whole. */
void report_print(const struct report *report, bool json);

void report_free(struct report *report);

#endif
