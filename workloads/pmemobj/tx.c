// SPDX-License-Identifier: Apache-2.0
/* libpmemobj's transactions: a step is one. */
#include "obj.h"

/* What is allocated in a transaction is flushed when it commits, and needs no log. */
static PMEMoid allocate(uint64_t words)
{
	PMEMoid oid = pmemobj_tx_alloc(obj_size(words), OBJ_TYPE);
	struct obj_object *object = pmemobj_direct(oid);

	object->words = words;
	return oid;
}

static void log_update(struct obj_object *object, uint64_t words, enum bug bug)
{
	size_t length = words * sizeof(uint64_t);

	if (bug == BUG_MISSING_ADD)
		return;
	pmemobj_tx_xadd_range_direct(object->word, length, bug == BUG_NONE ? 0 : POBJ_XADD_NO_FLUSH);
	if (bug == BUG_LATE_FLUSH)
		obj_keep_late(object->word, length);
}

static void operate(const struct operation *operation, uint64_t seed, uint64_t step, enum bug bug)
{
	unsigned int slot = operation->slot;
	struct obj_object *object;
	PMEMoid oid;

	if (operation->kind == KIND_FREE) {
		pmemobj_tx_free(obj.table->take(slot));
		return;
	}
	oid = operation->kind == KIND_ALLOC ? allocate(operation->words) : obj.table->get(slot);
	object = pmemobj_direct(oid);
	if (operation->kind == KIND_UPDATE)
		log_update(object, operation->words, bug);
	model_fill(object->word, operation->words, seed, step, slot);
	if (operation->kind == KIND_ALLOC)
		obj.table->put(slot, oid);
}

bool obj_transact(const struct model *model, const struct operation operations[OPERATIONS], enum bug bug)
{
	TX_BEGIN(obj.pool) {
		for (unsigned int i = 0; i < OPERATIONS; i++)
			operate(&operations[i], model->seed, model->steps + 1, bug);
		pmemobj_tx_add_range_direct(&obj.root->steps, sizeof(obj.root->steps));
		obj.root->steps++;
	} TX_ONABORT {
		return api_failed(pmemobj_errormsg());
	} TX_END
	return true;
}

const struct api api_tx = {
	.name = "tx", .transactions = true, .pmempool = true, .create = obj_create, .open = obj_open,
	.close = obj_close, .read = obj_read, .held = obj_held, .apply = obj_transact, .flush_late = obj_flush_late,
};
