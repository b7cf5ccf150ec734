/* SPDX-License-Identifier: Apache-2.0 */
/* What memory has for one device: the file system that the registry lists, its pages and its log. */
#ifndef CACHE_H
#define CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "device.h"
#include "entries.h"
#include "log.h"
#include "memory.h"
#include "registry.h"

/* How the file system of a device was found in the registry. */
enum cache_match {
	MATCH_NONE,
	MATCH_UUID,
	/*
	 * By being the only one that is to be recovered, and by what the device shows besides the
	 * UUID of its first superblock.
	 */
	MATCH_ONLY,
};

struct cache {
	enum registry_verdict verdict;
	struct registry registry;
	enum cache_match match;
	int fs;			/* its place in the registry, -1 without a match */
	struct entries entries;
	struct operation_log log;
};

/*
 * Reads what a registry in size bytes at start has for a device; with listed, only if it has the UUID of the
 * device's file system. 0, or -ENOMEM. Why there is nothing to recover is said on stderr; name is the device's
 * there.
 */
int cache_read(struct cache *cache, struct memory *memory, uint64_t start, uint64_t size,
	       const struct device *device, const char *name, bool listed);
void cache_close(struct cache *cache);

/* Does a valid registry say that all of the device's file system is on disk? */
bool cache_is_recovered(const struct cache *cache);

/* Does it say that all metadata is, and may have been changed there since? */
bool cache_has_its_metadata_restored(const struct cache *cache);

/*
 * Drops what is older than the disk, because somebody mounted that after the crash. Why is said on stderr; name is the
 * device's there.
 */
void cache_drop_if_older(struct cache *cache, const struct device *device, const char *name);

#endif
