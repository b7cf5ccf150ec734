/* SPDX-License-Identifier: Apache-2.0 */
/* Doing one step on disk. */
#ifndef ANDREW_ACT_H
#define ANDREW_ACT_H

#include <stdbool.h>

#include "options.h"

struct actor {
	int root;			/* the process's directory */
	bool fsync;			/* a step is durable before it is done */
	const struct shape *shape;
	struct origin origin;		/* .round is that of the step */
	char how[HOW_SIZE];		/* of a step that failed: errno's name, "mismatch", "compiler" or "killed" */
	char detail[64];		/* ... and what of it */
};

/* False when the step fails; then @actor says how. */
bool act(struct actor *actor, const struct step *step);

#endif
