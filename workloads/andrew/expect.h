/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What must be on disk: of each round that is not removed a first part of its things, and
 * what the step in flight, or the one that failed, may have made or removed.
 */
#ifndef ANDREW_EXPECT_H
#define ANDREW_EXPECT_H

#include "options.h"

#define NO_THING UINT32_MAX

struct tree {
	uint64_t round;
	unsigned int count;		/* things 0 to count - 1 are there */
	uint32_t flight;		/* this one may be as before the step or as after it */
	const struct failed *failure;	/* why nothing of it was touched any more; NULL: it was in use */
};

struct trees {
	struct tree *tree;
	size_t count;
};

/* The trees of a process, by rising round. */
void trees_init(struct trees *trees, const struct shape *shape, const struct reported *reported);

/* The right bytes of files; objects are compiled anew, in a directory below @scratch that is the current one then. */
struct scratch {
	const struct shape *shape;
	char *folder;
	struct origin origin;	/* of the sources that lie there; round 0: none */
	bool *compiled;		/* for each thing: whether the object lies there, too */
};

void scratch_init(struct scratch *scratch, const struct shape *shape, const char *folder);
void scratch_free(struct scratch *scratch);
/* To be freed. */
uint8_t *expected_bytes(struct scratch *scratch, const struct origin *origin, unsigned int thing, size_t *length);

#endif
