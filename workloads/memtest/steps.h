/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The step stream: step n is a pure function of the seed, max_bytes, n, and which
 * steps before it failed. A step is one operation on one file or directory.
 */
#ifndef MEMTEST_STEPS_H
#define MEMTEST_STEPS_H

#include "model.h"
#include "options.h"

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

/* A step that failed. What it worked on is as before the step or as after it, and no later step touches it. */
struct failure {
	struct step step;
	char how[HOW_SIZE];	/* errno's name, or "mismatch" for a read of wrong content */
};

/* The step after the model's last one. False when nothing is left that a step could work on. */
bool step_plan(const struct model *model, struct step *step);
/* Makes the model what it is after @step; what the step removes is freed. */
void step_apply(struct model *model, const struct step *step);
/* Makes the model what it is after @step has failed: what it works on is frozen, and a directory for its name closed. */
void step_fail(struct model *model, const struct step *step, const char *how);
/* What a write, append or truncate makes of @file. */
void step_change_file(const struct step *step, struct file *file);
/*
 * Takes a new model on by @steps steps, of which those in @failed failed, and calls @before,
 * unless it is NULL, with @context before each. Exits with EXIT_USAGE if that cannot be.
 */
void steps_replay(struct model *model, uint64_t steps, const struct failed_list *failed,
		  void (*before)(const struct step *step, void *context), void *context);

/* The path of the new name of create, mkdir and rename. */
void step_new_path(const struct step *step, char path[PATH_SIZE]);
/* The path of what the step works on; the new name of create and mkdir. */
void step_path(const struct step *step, char path[PATH_SIZE]);

#endif
