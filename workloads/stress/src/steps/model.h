// SPDX-License-Identifier: Apache-2.0
/* What the tree must hold: a model in memory, changed by the same steps as the tree itself. */
#ifndef MODEL_H
#define MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define PAGE 4096
#define MAX_NODES 2600
#define MAX_NAMES 4600
#define MAX_NAME 160
#define MAX_PATH 2048
#define XATTRS 4
#define MAX_XATTR 200 /* all of them fit in a block of 1 KiB */
#define ACL_NAME "system.posix_acl_access"
#define ACL_LENGTH 44
#define BIG_DIRECTORY 2000
#define ROOT 0

enum type { NOTHING, REGULAR, DIRECTORY, SYMLINK, FIFO };

/* A value is `length` bytes of the pattern of `seed`; no seed: there is no such attribute. */
struct xattr {
	uint64_t seed;
	size_t length;
};

/* What an ACL adds to the mode, whose bits of the group are the mask then. */
struct acl {
	bool set;
	unsigned int uid, permissions; /* of one user more */
	unsigned int group; /* permissions of the owning group */
};

struct node {
	enum type type;
	unsigned int mode, uid, gid;
	int flag; /* 'a': append only, 'i': immutable, 0 */
	int links; /* names of it, subdirectories not counted */
	struct xattr xattrs[XATTRS];
	struct acl acl;
	bool timed; /* whether the modification time is known */
	int64_t seconds;
	long nanoseconds;
	char target[MAX_NAME];
	off_t limit; /* of the size */
	off_t size;
	size_t pages;
	unsigned char **page; /* NULL: zeros */
	ino_t inode; /* of the tree that is compared, 0 before it was seen */
};

struct name {
	int parent, node; /* node -1: free */
	bool seen;
	char text[MAX_NAME];
};

struct model {
	struct node nodes[MAX_NODES];
	struct name names[MAX_NAMES];
	int last_name; /* one more than the highest index in use */
	int big; /* the directory that is filled to BIG_DIRECTORY names and emptied, 0: none yet */
	bool filling;
	long allocated; /* pages with content */
};

struct model *model_new(void);
/* The lowest free node, name; -1: too many. */
int model_free_node(const struct model *model);
int model_free_name(const struct model *model);
void model_link(struct model *model, int name, int parent, const char *text, int node);
void model_unlink(struct model *model, int name);
int model_children(const struct model *model, int directory);
int model_subdirectories(const struct model *model, int directory);
/* A name of the node; -1: it has none. */
int model_name_of(const struct model *model, int node);
int model_lookup(const struct model *model, int parent, const char *text);
bool model_inside(const struct model *model, int node, int directory);
void model_path(const struct model *model, int name, char *path);
void model_path_of(const struct model *model, int node, char *path);

void data_set(struct model *model, struct node *node, off_t offset, const unsigned char *bytes, size_t length);
void data_get(const struct node *node, off_t offset, unsigned char *bytes, size_t length);
void data_zero(struct model *model, struct node *node, off_t offset, off_t length);
void data_resize(struct model *model, struct node *node, off_t size);
void data_collapse(struct model *model, struct node *node, off_t offset, off_t length);
void data_insert(struct node *node, off_t offset, off_t length);
/* A copy that shares nothing; data_free frees what is in it. */
struct node data_copy(const struct node *node);
void data_free(struct model *model, struct node *node);

/* The value of the attribute ACL_NAME. */
void acl_value(const struct acl *acl, unsigned int mode, unsigned char value[ACL_LENGTH]);

/* Bytes of the endless pattern of `seed` from `offset` on. */
void pattern(uint64_t seed, off_t offset, unsigned char *bytes, size_t length);
uint64_t mix(uint64_t value);
void *need(void *memory);

#endif
