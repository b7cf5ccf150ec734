// SPDX-License-Identifier: Apache-2.0
/* A step: one change of the tree, drawn from seed, number and model, so that it can be drawn again. */
#ifndef STEP_H
#define STEP_H

#include "model.h"

#define LACKS 69 /* exit status: the guest lacks something (EX_UNAVAILABLE) */
#define MAX_LENGTH (256 << 10) /* of what one step writes */
#define MAX_TOUCHED 5

enum operation {
	WRITE, APPEND, WRITEV, STORE, DIRECT, URING, SPLICE, SENDFILE, COPY,
	ALLOCATE, ALLOCATE_KEEP, PUNCH, ZERO, ZERO_KEEP, COLLAPSE, INSERT, SHRINK, GROW,
	CREATE, UNNAMED, MKDIR, SYMBOLIC, MKFIFO, LINK, UNLINK, RMDIR, MOVE, REPLACE, EXCHANGE, FILL, DRAIN,
	CHMOD, CHOWN, TIMES, SET_XATTR, REMOVE_XATTR, SET_ACL, REMOVE_ACL, FLAG, UNFLAG,
	OPERATIONS
};

struct step {
	unsigned long number;
	enum operation operation;
	int node; /* the one that is changed, made, or gets a name */
	int other; /* the one that is copied from; -1: none */
	int name, other_name; /* existing names */
	int new_name; /* where a new one is put */
	int directory; /* ... and in which directory */
	char text[MAX_NAME];
	off_t offset, length, from;
	unsigned int value, second;
	uint64_t seed; /* of the content */
	int touched[MAX_TOUCHED]; /* nodes whose modification time may change, -1: no more */
};

extern const char *const operation_names[OPERATIONS];

/* Draw step `number`; the model is as the step before left it. */
struct step step_draw(const struct model *model, uint64_t seed, unsigned long number);
/* The ACL of a step that sets one. */
struct acl step_acl(const struct step *step);
/* Do it to the model. */
void step_apply(struct model *model, const struct step *step);
/* Do it to the tree in the current folder; exits with 1 when the kernel says no, with LACKS when it cannot. */
void step_act(const struct model *model, const struct step *step);
/* Whether a reset in the middle of it may leave any mixture of old and new bytes. */
bool step_mixes(const struct step *step);

#endif
