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

/* From best to worst. What is in a state to the left of another one is not in that one. */
enum state {
	STATE_NEWEST,
	STATE_OLDER,	/* as after an earlier step */
	STATE_MIXED,	/* each block as after some step, but not the same for all of them */
	STATE_ZEROED,	/* a block, or the rest of one, holds zeros where no step left any */
	STATE_TORN,	/* a block has bytes of several steps */
	STATE_STALE,	/* a block that was written has bytes that no step left there */
	STATE_MISPLACED,	/* a rename left the file at neither name, or at both */
	STATE_UNSYNCED,	/* as before it was made durable */
	STATE_DAMAGED,	/* as it never was */
	STATES
};

extern const char *const state_names[STATES];

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
	bool may_lose;		/* later steps than that may be lost */
	uint64_t lost;		/* the first step that is not there, or not all of it; 0: none that may be lost */
	uint64_t states[STATES];	/* files and names in each state, if steps may be lost */
	uint64_t renamed;	/* ... and files whose name is newer than their content */
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

/* Forgets the differences, and keeps what was counted of them. */
void report_forget(struct report *report);

/* One JSON object, or a line for each difference and one for the whole. */
void report_print(const struct report *report, bool json);

void report_free(struct report *report);

#endif
