/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What steps that may have begun, and may not have ended, allow: the one that was
 * going on at the crash, and all that failed before it. Each changes what may stand
 * under at most two names, no other step has to do with these, and everything else must
 * be as before the step.
 */
#ifndef MEMTEST_INFLIGHT_H
#define MEMTEST_INFLIGHT_H

#include "steps.h"

struct inflight {
	const struct step *step;
	struct node made;		/* what create or mkdir makes */
	struct file after;		/* what write, append or truncate makes of the step's file */
	bool left;			/* rename: nothing stands under the old name any more */
};

struct flights {
	struct inflight *flight;
	size_t count;
};

/* What may stand under one name. */
struct expect {
	const char *name;
	const struct node *node;
	/* A file may be this instead ... */
	const struct file *other;
	/* ... or any mixture: a size from node's to other's, each byte from either (zero past its size). */
	bool mixed;
	/* ... or node's with zeros behind other's end, as far as that page goes. */
	bool cut;
	bool absent_is_right;
	/* The step that allows it; NULL: none has to do with it. */
	const struct inflight *flight;
};

/* Adds @step. @root is the test directory on disk, or -1 if it cannot be opened or is not here. */
void flights_add(struct flights *flights, const struct step *step, int root);
/* Whether a step makes, moves or removes @node, which may then have a link too many. */
bool flights_link(const struct flights *flights, const struct node *node);
void flights_free(struct flights *flights);

/* What may stand under the name of @node, which is in the model before the steps. */
struct expect flights_at(const struct flights *flights, const struct node *node);
/* Whether the step brings a new name into @dir, and what may then stand under it. */
bool inflight_new(const struct inflight *inflight, const struct node *dir, struct expect *expect);

#endif
