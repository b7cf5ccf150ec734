/* SPDX-License-Identifier: Apache-2.0 */
/* A pool of libpmemobj, whether transactions or atomic operations change it. */
#ifndef PMEMOBJ_OBJ_H
#define PMEMOBJ_OBJ_H

#include <libpmemobj.h>

#include "api.h"

/* The type number of an object; there is one type. */
#define OBJ_TYPE 1

struct obj_root {
	uint64_t steps;
	PMEMoid slot[SLOTS];
};

struct obj_object {
	uint64_t words;
	uint64_t word[];
};

/* The pool that is open. */
extern struct obj_pool {
	PMEMobjpool *pool;
	struct obj_root *root;
} obj;

static inline size_t obj_size(uint64_t words)
{
	return sizeof(struct obj_object) + words * sizeof(uint64_t);
}

bool obj_create(const char *path, size_t size);
bool obj_open(const char *path, size_t size);
void obj_close(void);
bool obj_read(struct contents *contents);
struct held obj_held(unsigned int slot);

/* Keeps what "late-flush" leaves for later; flushes it. */
void obj_keep_late(const void *from, size_t length);
void obj_flush_late(void);

#endif
