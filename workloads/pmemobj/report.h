/* SPDX-License-Identifier: Apache-2.0 */
/* The differences that verify finds. It has no pointers to what a process allocates, so that two can share it. */
#ifndef PMEMOBJ_REPORT_H
#define PMEMOBJ_REPORT_H

#include <stdbool.h>
#include <stdint.h>

/* How many differences are kept; more are only counted, so that a report has a bound. */
#define REPORT_LISTED 100u

struct difference {
	const char *kind;	/* a string constant */
	uint64_t offset;	/* in the pool's file, and how many bytes; both 0 if they say nothing */
	uint64_t length;
	char detail[256];
};

struct report {
	uint64_t done;
	uint64_t intent;
	uint64_t kept;		/* the step after which the pool is equal, if it is */
	uint64_t objects;	/* of the model, and of these, those that are not there or wrong */
	uint64_t objects_lost;
	uint64_t bytes;
	uint64_t bytes_lost;
	uint64_t count;		/* of all differences */
	struct difference listed[REPORT_LISTED];
	const char *doing;	/* for what is said of a process that did not come to its end */
	bool compared;		/* whether the model and the pool were */
	char pmempool[256];	/* what `pmempool check` said; empty if nobody asked */
};

void report_add(struct report *report, const char *kind, uint64_t offset, uint64_t length, const char *format, ...)
	__attribute__((format(printf, 5, 6)));

/* One JSON object, or a line for each difference and one for the whole. */
void report_print(const struct report *report, bool json);

#endif
