// SPDX-License-Identifier: Apache-2.0
/* PMDK's own examples: a tree and a hash table, whose values are the objects. A step is one transaction around them. */
#include <errno.h>
#include <map.h>
#include <map_btree.h>
#include <map_hashmap_tx.h>

#include "obj.h"

static const struct map_ops *ops;

static TOID(struct map) map(void)
{
	TOID(struct map) map;

	TOID_ASSIGN(map, obj.root->map);
	return map;
}

/* The tree takes key 0 for none. */
static uint64_t key(unsigned int slot)
{
	return slot + 1;
}

static bool create(void)
{
	TOID(struct map) *map = (void *)&obj.root->map;

	return !ops->create(obj.pool, map, NULL) || api_failed(pmemobj_errormsg());
}

static bool open_map(void)
{
	if (!pmemobj_direct(obj.root->map)) {
		errno = EINVAL;
		return api_failed("there is no map");
	}
	return !ops->init || !ops->init(obj.pool, map()) || api_failed(pmemobj_errormsg());
}

static PMEMoid get(unsigned int slot)
{
	return ops->get(obj.pool, map(), key(slot));
}

static void put(unsigned int slot, PMEMoid oid)
{
	if (ops->insert(obj.pool, map(), key(slot), oid))
		pmemobj_tx_abort(EINVAL);
}

static PMEMoid take(unsigned int slot)
{
	return ops->remove(obj.pool, map(), key(slot));
}

static const struct obj_table table = { create, open_map, get, put, take };

static bool create_btree(const char *path, size_t size)
{
	ops = MAP_BTREE;
	return obj_create_with(&table, path, size);
}

static bool open_btree(const char *path, size_t size)
{
	(void)size;
	ops = MAP_BTREE;
	return obj_open_with(&table, path);
}

static bool create_hashmap(const char *path, size_t size)
{
	ops = MAP_HASHMAP_TX;
	return obj_create_with(&table, path, size);
}

static bool open_hashmap(const char *path, size_t size)
{
	(void)size;
	ops = MAP_HASHMAP_TX;
	return obj_open_with(&table, path);
}

const struct api api_btree = {
	.name = "btree", .transactions = true, .pmempool = true, .create = create_btree, .open = open_btree,
	.close = obj_close, .read = obj_read, .held = obj_held, .apply = obj_transact, .flush_late = obj_flush_late,
};

const struct api api_hashmap_tx = {
	.name = "hashmap_tx", .transactions = true, .pmempool = true, .create = create_hashmap, .open = open_hashmap,
	.close = obj_close, .read = obj_read, .held = obj_held, .apply = obj_transact, .flush_late = obj_flush_late,
};
