/* SPDX-License-Identifier: Apache-2.0 */
/* A pool of libpmemobj, whether transactions or atomic operations change it. */
#ifndef PMEMOBJ_OBJ_H
#define PMEMOBJ_OBJ_H

#include <libpmemobj.h>

#include "api.h"

/* The type number of an object. */
#define OBJ_TYPE 1

struct obj_root {
	uint64_t steps;
	PMEMoid slot[SLOTS];	/* where no map has the objects */
	PMEMoid map;
};

struct obj_object {
	uint64_t words;
	uint64_t word[];
};

/* How a pool's transactions find the object of a slot. put and take are called in one, and abort it on an error. */
struct obj_table {
	bool (*create)(void);
	bool (*open)(void);
	PMEMoid (*get)(unsigned int slot);		/* OID_NULL if there is none */
	void (*put)(unsigned int slot, PMEMoid oid);	/* into a slot that is empty */
	PMEMoid (*take)(unsigned int slot);		/* what was in the slot */
};

/* The array in the root object. */
extern const struct obj_table obj_array;

/* The pool that is open. */
extern struct obj_pool {
	PMEMobjpool *pool;
	struct obj_root *root;
	const struct obj_table *table;
} obj;

static inline size_t obj_size(uint64_t words)
{
	return sizeof(struct obj_object) + words * sizeof(uint64_t);
}

bool obj_create(const char *path, size_t size);
bool obj_open(const char *path, size_t size);
/* The same for another table. */
bool obj_create_with(const struct obj_table *table, const char *path, size_t size);
bool obj_open_with(const struct obj_table *table, const char *path);
void obj_close(void);
bool obj_read(struct contents *contents);
struct held obj_held(unsigned int slot);

/* A step as one transaction. */
bool obj_transact(const struct model *model, const struct operation operations[OPERATIONS], enum bug bug);

/* Keeps what "late-flush" leaves for later; flushes it. */
void obj_keep_late(const void *from, size_t length);
void obj_flush_late(void);

#endif
