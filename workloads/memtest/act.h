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
	enum exit_status status;	/* of a step that failed */
	char text[PATH_SIZE + 256];	/* ... for its E record: errno's name or "mismatch", and where */
};

/* False when a system call failed or a read does not match; then @actor says which. */
bool act(struct actor *actor, const struct step *step);

#endif
