/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step stream: step n is a pure function of the seed, max_bytes and n. A
 * step is one operation on one file or directory.
 */
#ifndef MEMTEST_STEPS_H
#define MEMTEST_STEPS_H

#include "model.h"

/* Above any number of steps that a run in an emulated guest can reach. */
#define STEPS_MAX 100000000u

enum step_kind {
	STEP_CREATE,
	STEP_WRITE,	/* inside a file, over its end, or past it, leaving a hole */
	STEP_APPEND,
	STEP_TRUNCATE,
	STEP_READ,
	STEP_MKDIR,
	STEP_RMDIR,
	STEP_RENAME,
	STEP_UNLINK,
	STEP_KINDS
};

extern const char *const step_names[STEP_KINDS];

struct step {
	uint64_t number;
	enum step_kind kind;
	struct node *node;	/* what it works on; NULL for create and mkdir */
	struct node *parent;	/* create, mkdir, rename: the directory of the new name */
	char name[NAME_SIZE];	/* ... and the new name */
	struct node *victim;	/* rename: the file replaced, or NULL */
	uint64_t offset;	/* write, append, read; for truncate the new size */
	uint64_t length;	/* write, append, read */
};

/* The step after the model's last one. */
void step_plan(const struct model *model, struct step *step);
/* Makes the model what it is after @step; what the step removes is freed. */
void step_apply(struct model *model, const struct step *step);
/* What a write, append or truncate makes of @file. */
void step_change_file(const struct step *step, struct file *file);
/* Takes a new model on by @steps steps. */
void steps_replay(struct model *model, uint64_t steps);

/* The path of the new name of create, mkdir and rename. */
void step_new_path(const struct step *step, char path[PATH_SIZE]);

#endif
