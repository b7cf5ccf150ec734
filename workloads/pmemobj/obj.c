// SPDX-License-Identifier: Apache-2.0
#include "obj.h"

#include <errno.h>

#define LAYOUT "riobed"
/* Of all objects in a pool; one with more is damaged, and its list may have no end. */
#define OBJECTS_MOST (4 * SLOTS)

struct obj_pool obj;

static struct {
	const void *from;
	size_t length;
} late[OPERATIONS];
static unsigned int late_count;

static bool nothing_to_do(void)
{
	return true;
}

static PMEMoid array_get(unsigned int slot)
{
	return obj.root->slot[slot];
}

static void array_put(unsigned int slot, PMEMoid oid)
{
	pmemobj_tx_add_range_direct(&obj.root->slot[slot], sizeof(oid));
	obj.root->slot[slot] = oid;
}

static PMEMoid array_take(unsigned int slot)
{
	PMEMoid oid = obj.root->slot[slot];

	array_put(slot, OID_NULL);
	return oid;
}

const struct obj_table obj_array = { nothing_to_do, nothing_to_do, array_get, array_put, array_take };

bool obj_create_with(const struct obj_table *table, const char *path, size_t size)
{
	PMEMoid root;

	obj.table = table;
	obj.pool = pmemobj_create(path, LAYOUT, size, 0644);
	if (!obj.pool)
		return api_failed(pmemobj_errormsg());
	root = pmemobj_root(obj.pool, sizeof(struct obj_root));
	if (OID_IS_NULL(root))
		return api_failed(pmemobj_errormsg());
	obj.root = pmemobj_direct(root);
	return table->create();
}

bool obj_create(const char *path, size_t size)
{
	return obj_create_with(&obj_array, path, size);
}

bool obj_open_with(const struct obj_table *table, const char *path)
{
	obj.table = table;
	obj.pool = pmemobj_open(path, LAYOUT);
	if (!obj.pool)
		return api_failed(pmemobj_errormsg());
	/* Otherwise pmemobj_root() would make a root. */
	if (pmemobj_root_size(obj.pool) != sizeof(struct obj_root)) {
		errno = EINVAL;
		return api_failed("the root object is not there or has another size");
	}
	obj.root = pmemobj_direct(pmemobj_root(obj.pool, sizeof(struct obj_root)));
	return table->open();
}

bool obj_open(const char *path, size_t size)
{
	(void)size;
	return obj_open_with(&obj_array, path);
}

void obj_close(void)
{
	pmemobj_close(obj.pool);
}

static uint64_t offset_of(const void *address)
{
	return (uint64_t)((const char *)address - (const char *)obj.pool);
}

struct held obj_held(unsigned int slot)
{
	PMEMoid oid = obj.table->get(slot);
	const struct obj_object *object;
	uint64_t room;

	if (OID_IS_NULL(oid))
		return (struct held){ 0 };
	object = pmemobj_direct(oid);
	room = pmemobj_alloc_usable_size(oid);
	return (struct held){
		.object = true,
		.words = room >= obj_size(object->words) && object->words <= WORDS_MOST ? object->words : 0,
		.word = object->word,
		.offset = offset_of(object->word),
	};
}

/* Lists where all objects of slots are; returns how many there are, or OBJECTS_MOST. */
static unsigned int list_objects(uint64_t *offset)
{
	PMEMoid oid = pmemobj_first(obj.pool);
	unsigned int count = 0;

	for (; !OID_IS_NULL(oid) && count < OBJECTS_MOST; oid = pmemobj_next(oid))
		if (pmemobj_type_num(oid) == OBJ_TYPE)
			offset[count++] = oid.off;
	return count;
}

/* Takes an object from the list; false if it is not there. No two slots may have the same. */
static bool take(uint64_t *offset, unsigned int *count, PMEMoid oid)
{
	if (pmemobj_pool_by_oid(oid) != obj.pool)
		return false;
	for (unsigned int i = 0; i < *count; i++)
		if (offset[i] == oid.off) {
			offset[i] = offset[--*count];
			return true;
		}
	return false;
}

bool obj_read(struct contents *contents)
{
	uint64_t offset[OBJECTS_MOST];
	unsigned int count = list_objects(offset);
	const PMEMoid *array = obj.table == &obj_array ? obj.root->slot : NULL;

	*contents = (struct contents){ .steps = obj.root->steps, .steps_offset = offset_of(&obj.root->steps) };
	for (unsigned int i = 0; i < SLOTS; i++) {
		PMEMoid oid = obj.table->get(i);

		if (OID_IS_NULL(oid) || take(offset, &count, oid))
			contents->slot[i] = obj_held(i);
		else
			contents->slot[i] = (struct held){ .wrong = true, .offset = array ? offset_of(&array[i]) : 0 };
	}
	contents->stray = count;
	return true;
}

void obj_keep_late(const void *from, size_t length)
{
	late[late_count].from = from;
	late[late_count++].length = length;
}

void obj_flush_late(void)
{
	while (late_count) {
		late_count--;
		pmemobj_persist(obj.pool, late[late_count].from, late[late_count].length);
	}
}
