/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a step that may have begun, and may not have ended, allows. It changes
 * what may stand under at most two names; everything else must be as before it.
 */
#ifndef MEMTEST_INFLIGHT_H
#define MEMTEST_INFLIGHT_H

#include "steps.h"

struct inflight {
	const struct step *step;	/* NULL: none in flight */
	struct node made;		/* what create or mkdir makes */
	struct file after;		/* what write, append or truncate makes of the step's file */
	bool left;			/* rename: nothing stands under the old name any more */
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
};

/* @root is the test directory on disk, or -1 if it cannot be opened. @step may be NULL. */
void inflight_init(struct inflight *inflight, const struct step *step, int root);
void inflight_free(struct inflight *inflight);

/* What may stand under the name of @node, which is in the model before the step. */
struct expect inflight_at(const struct inflight *inflight, const struct node *node);
/* Whether the step brings a new name into @dir, and what may then stand under it. */
bool inflight_new(const struct inflight *inflight, const struct node *dir, struct expect *expect);

#endif
