/* SPDX-License-Identifier: Apache-2.0 */
/* Doing one step on disk. */
#ifndef MEMTEST_ACT_H
#define MEMTEST_ACT_H

#include "steps.h"
#include "util.h"

struct actor {
	int root;			/* the test directory */
	bool fsync;			/* a step is durable before it is done */
	const struct model *model;	/* as it is before the step */
	const struct step *step;
	enum exit_status status;	/* of a step that failed */
	char how[HOW_SIZE];		/* ... errno's name, or "mismatch" */
	char text[2 * PATH_SIZE + 256];	/* ... and for its E record also the kind of step, its path, and what failed */
};

/* False when a system call failed or a read does not match; then @actor says which. */
bool act(struct actor *actor, const struct step *step);

#endif
