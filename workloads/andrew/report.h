/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ANDREW_REPORT_H
#define ANDREW_REPORT_H

#include <stdint.h>
#include <stdio.h>

/* How many differences are listed; more are only counted. */
#define REPORT_LISTED 100

struct report {
	uint64_t files;		/* compared, whether equal or not */
	uint64_t dirs;
	uint64_t bytes;
	uint64_t files_expected;	/* but for one that the step in flight may have made or removed */
	uint64_t files_lost;	/* of these, not there or wrong in any way */
	uint64_t bytes_lost;	/* of these, not there, wrong or unreadable */
	uint64_t count;		/* of all differences */
	uint64_t frozen_at;	/* the step that failed where things are compared now; 0: none */
	FILE *list;		/* JSON of the differences */
	char *text;
	size_t length;
};

void report_init(struct report *report);
void report_free(struct report *report);
void report_add(struct report *report, const char *kind, const char *path, uint64_t offset, uint64_t length,
		const char *format, ...) __attribute__((format(printf, 6, 7)));

#endif
