/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The model: what must exist below the test directory.
 *
 *	.		the test directory
 *	tree/		what the steps work on
 *	twins/NNN.a	pairs of equal files, never written again
 *	twins/NNN.b
 */
#ifndef MEMTEST_MODEL_H
#define MEMTEST_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "file.h"

#define NAME_SIZE 48		/* of any name in the model, with its NUL */
#define DEPTH_MAX 10		/* of any node below the test directory */
#define PATH_SIZE (DEPTH_MAX * NAME_SIZE)

#define TWINS_DEFAULT 8
#define TWIN_BYTES_DEFAULT (32u * 1024)
#define TWINS_MAX 99999		/* NNN has three to five digits */

/* The extended attribute that twins may have, and the size of its value: one block has room for that. */
#define ATTRIBUTE "user.memtest"
#define ATTRIBUTE_MAX 3000u

/* Long before any run, so that the time of a write is another one. 2001-09-09. */
#define MTIME_BASE 1000000000

#define MAX_BYTES_DEFAULT (8u << 20)
#define MAX_BYTES_LEAST 4096u
#define MAX_BYTES_MOST (1ull << 40)

enum node_type { NODE_FILE, NODE_DIR };

struct node {
	enum node_type type;
	bool twin;
	char name[NAME_SIZE];
	struct node *parent;	/* NULL: the test directory */
	size_t slot;		/* index in the model's files or dirs */
	bool closed;		/* NODE_DIR: it takes no new names, since a step failed to bring one in */
	bool pinned;		/* NODE_DIR: not renamed or removed: it is closed, or something below it is frozen */
	struct file file;	/* NODE_FILE */
	struct node **child;	/* NODE_DIR: by name */
	size_t children;
	size_t room;
};

struct nodes {
	struct node **node;
	size_t count;
	size_t room;
};

struct failure;

struct model {
	uint64_t seed;
	uint64_t max_bytes;	/* of all files below tree/ together */
	uint64_t bytes;		/* ... as they are now */
	uint64_t steps;		/* applied */
	struct node *root;
	struct nodes files;	/* those below tree/ that are not frozen, for drawing one */
	struct nodes dirs;	/* the same; [0] is tree/ itself, which stays */
	struct failure *failure;	/* the steps that failed, in order (steps.h) */
	size_t failures;
};

/* A model before the first step, with @twins pairs of twins of 1 to @twin_bytes bytes. */
void model_init(struct model *model, uint64_t seed, uint64_t max_bytes, unsigned int twins, unsigned int twin_bytes);
void model_free(struct model *model);

/* The seed of a file's content: twins do not depend on the model's. */
uint64_t model_seed_of(const struct model *model, const struct node *node);

/* When @twin was written last, as prepare says: whole seconds, which any file system keeps. */
time_t model_mtime(const struct node *twin);
/* The value of @twin's extended attribute: 1 to @most bytes, 3000 at most. Returns how many. */
size_t model_attribute(const struct node *twin, unsigned int most, uint8_t value[ATTRIBUTE_MAX]);

/* A new empty file or directory below tree/. */
void model_add(struct model *model, struct node *parent, const char *name, enum node_type type);
/* @node, if a directory, is empty. */
void model_remove(struct model *model, struct node *node);
void model_move(struct node *node, struct node *parent, const char *name);
/* No later step works on @node or anything below it; it stays where it is. */
void model_freeze(struct model *model, struct node *node);
/* @dir takes no new names and stays where it is; what is in it may still be changed. */
void model_close(struct node *dir);

/* The node's path from the test directory; "." for that itself. */
void node_path(const struct node *node, char path[PATH_SIZE]);
/* How many names the path has. */
unsigned int node_depth(const struct node *node);
/* How many levels of directories and files hang below. */
unsigned int node_height(const struct node *node);
bool node_is_below(const struct node *node, const struct node *ancestor);

#endif
