/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a process does in a round, and what that makes. All rounds have the same steps:
 *
 *	create		src/, its directories and files
 *	mkdir		the same directories in dst/
 *	copy		the files
 *	scan		stat everything in dst/
 *	read		every file in dst/
 *	compile		each C file in dst/, and link a program
 *	remove		all that the round before made, in reverse order
 *
 * Things are made in the order of their numbers, so those that exist are always the first ones.
 */
#ifndef ANDREW_ROUND_H
#define ANDREW_ROUND_H

#include <stdint.h>

#include "source.h"

#define PATH_SIZE 64		/* of a path below a process's directory */
/* A process gives up after so many rounds that failed: each leaves its files. */
#define FAILURES_MAX 16u

enum thing_type { THING_DIR, THING_SOURCE, THING_OBJECT, THING_PROGRAM };

struct thing {
	enum thing_type type;
	unsigned int parent;	/* the directory it is in; 0 for itself */
	unsigned int from;	/* what it is copied from or compiled from; 0: nothing */
	unsigned int file;	/* number of the source file */
	char path[32];		/* from the directory of the round; "." for that */
};

enum step_kind { STEP_CREATE, STEP_MKDIR, STEP_COPY, STEP_SCAN, STEP_READ, STEP_COMPILE, STEP_REMOVE };

extern const char *const step_names[];

struct step {
	enum step_kind kind;
	unsigned int thing;
};

struct shape {
	unsigned int files;
	struct thing *thing;
	unsigned int things;
	struct step *step;
	unsigned int steps;	/* of a round */
	unsigned int removal;	/* index of the first step that removes */
};

void shape_init(struct shape *shape, unsigned int files);
void shape_free(struct shape *shape);

/* Step numbers begin with 1, and go on from round to round, which also begin with 1. */
static inline uint64_t round_of(const struct shape *shape, uint64_t number)
{
	return (number - 1) / shape->steps + 1;
}

static inline const struct step *step_of(const struct shape *shape, uint64_t number)
{
	return &shape->step[(number - 1) % shape->steps];
}

/* The round whose things the step works on. */
static inline uint64_t round_touched(const struct shape *shape, uint64_t number)
{
	return round_of(shape, number) - (step_of(shape, number)->kind == STEP_REMOVE);
}

static inline int makes(enum step_kind kind)
{
	return kind <= STEP_COPY || kind == STEP_COMPILE;
}

/* The path of a thing of a round from the process's directory. */
void thing_path(const struct thing *thing, uint64_t round, char path[PATH_SIZE]);

#endif
