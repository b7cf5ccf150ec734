// SPDX-License-Identifier: Apache-2.0
/* libpmemobj's atomic operations: each is done or not, an update is stores and a flush, the counter comes last. */
#include "obj.h"

struct wanted {
	uint64_t seed;
	uint64_t step;
	unsigned int slot;
	uint64_t words;
};

static int construct(PMEMobjpool *pool, void *address, void *argument)
{
	const struct wanted *wanted = argument;
	struct obj_object *object = address;

	object->words = wanted->words;
	model_fill(object->word, wanted->words, wanted->seed, wanted->step, wanted->slot);
	pmemobj_persist(pool, object, obj_size(wanted->words));
	return 0;
}

static void update(const struct wanted *wanted, enum bug bug)
{
	struct obj_object *object = pmemobj_direct(obj.root->slot[wanted->slot]);
	size_t length = wanted->words * sizeof(uint64_t);

	model_fill(object->word, wanted->words, wanted->seed, wanted->step, wanted->slot);
	if (bug == BUG_NONE)
		pmemobj_persist(obj.pool, object->word, length);
	if (bug == BUG_LATE_FLUSH)
		obj_keep_late(object->word, length);
}

static bool apply(const struct model *model, const struct operation operations[OPERATIONS], enum bug bug)
{
	for (unsigned int i = 0; i < OPERATIONS; i++) {
		const struct operation *operation = &operations[i];
		struct wanted wanted = { model->seed, model->steps + 1, operation->slot, operation->words };
		PMEMoid *slot = &obj.root->slot[operation->slot];

		if (operation->kind == KIND_UPDATE)
			update(&wanted, bug);
		else if (operation->kind == KIND_FREE)
			pmemobj_free(slot);
		else if (pmemobj_alloc(obj.pool, slot, obj_size(wanted.words), OBJ_TYPE, construct, &wanted))
			return api_failed(pmemobj_errormsg());
	}
	obj.root->steps++;
	pmemobj_persist(obj.pool, &obj.root->steps, sizeof(obj.root->steps));
	return true;
}

const struct api api_atomic = {
	.name = "atomic", .tears_updates = true, .pmempool = true, .create = obj_create, .open = obj_open,
	.close = obj_close, .read = obj_read, .held = obj_held, .apply = apply, .flush_late = obj_flush_late,
};
