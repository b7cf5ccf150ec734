/* SPDX-License-Identifier: Apache-2.0 */
#include "cache.h"

#include <endian.h>
#include <stdio.h>
#include <string.h>

bool cache_is_recovered(const struct cache *cache)
{
	return cache->fs >= 0 && !registry_is_active(&cache->registry, cache->fs);
}

bool cache_has_its_metadata_restored(const struct cache *cache)
{
	return cache->fs >= 0 && le32toh(cache->registry.header.fs[cache->fs].phase) == RIO_RECOVERING;
}

static void match(struct cache *cache, const struct device *device, bool listed)
{
	if (device->superblock.valid) {
		cache->fs = registry_find(&cache->registry, device->superblock.uuid);
		cache->match = MATCH_UUID;
	}
	if (cache->fs < 0 && !listed) {
		cache->fs = registry_only_active(&cache->registry);
		cache->match = MATCH_ONLY;
	}
	if (cache->fs < 0)
		cache->match = MATCH_NONE;
}

static struct superblock superblock_in_memory(const struct cache *cache, struct memory *memory)
{
	const struct page *page = entries_find_block(&cache->entries, 0);
	const uint8_t *content = page ? memory_at(memory, page->address, RIO_PAGE_SIZE) : NULL;

	return content ? superblock_read(content + SUPERBLOCK_OFFSET) : (struct superblock){ .valid = false };
}

/*
 * A disk whose UUID is not listed belongs to the file system in memory if it shows that: its superblock was made in the
 * same second, so that the UUID was changed, or its backup has the UUID. A disk below a volume manager or encryption
 * shows neither.
 */
static bool is_its_disk(const struct cache *cache, struct memory *memory, const struct device *device)
{
	const uint8_t *uuid = cache->registry.header.fs[cache->fs].uuid;
	struct superblock in_memory = superblock_in_memory(cache, memory);

	if (device->superblock.valid)
		return in_memory.valid && in_memory.made == device->superblock.made;
	return device->backup.valid && !memcmp(device->backup.uuid, uuid, sizeof(device->backup.uuid));
}

static int read_parts(struct cache *cache, struct memory *memory, const struct device *device)
{
	uint32_t dev = le32toh(cache->registry.header.fs[cache->fs].dev);
	int err = entries_read(&cache->entries, &cache->registry, memory, dev, device->blocks);

	return err ? err : log_read(&cache->log, &cache->registry, memory, dev, device->blocks);
}

/* As if there were no registry for the device. */
static void drop(struct cache *cache)
{
	cache_close(cache);
	cache->match = MATCH_NONE;
	cache->fs = -1;
	cache->verdict = REGISTRY_NONE;
}

static int no_match(struct cache *cache, const char *name)
{
	drop(cache);
	fprintf(stderr, "riorecover: %s: its file system is not in the registry: cold start\n", name);
	return 0;
}

void cache_drop_if_older(struct cache *cache, const struct device *device, const char *name)
{
	const struct superblock *disk = &device->superblock;
	const struct rio_fs *fs = cache->fs >= 0 ? &cache->registry.header.fs[cache->fs] : NULL;

	/* Recovery mounts the disk, too, but not before it says that metadata is restored. */
	if (!fs || !fs->mtime || !disk->valid || cache_has_its_metadata_restored(cache))
		return;
	if ((int32_t)(disk->mounted - le32toh(fs->mtime)) <= 0 && disk->mounts <= le32toh(fs->mnt_count))
		return;
	drop(cache);
	fprintf(stderr, "riorecover: %s: it was mounted after the crash, so it is newer than memory, "
		"of which nothing is restored\n", name);
}

int cache_read(struct cache *cache, struct memory *memory, uint64_t start, uint64_t size,
	       const struct device *device, const char *name, bool listed)
{
	int err;

	*cache = (struct cache){ .fs = -1 };
	cache->verdict = registry_open(&cache->registry, memory, start, size);
	if (cache->verdict != REGISTRY_VALID)
		return 0;
	match(cache, device, listed);
	if (cache_is_recovered(cache)) {
		fprintf(stderr, "riorecover: no file cache to recover: cold start\n");
		cache->verdict = REGISTRY_NONE;
		return 0;
	}
	if (cache->fs < 0)
		return no_match(cache, name);
	err = read_parts(cache, memory, device);
	if (err || cache->match == MATCH_UUID)
		return err;
	if (cache->entries.counts.behind || !is_its_disk(cache, memory, device))
		return no_match(cache, name);
	fprintf(stderr, "riorecover: %s: its UUID is not in the registry; taken for the only file system there\n",
		name);
	return 0;
}

void cache_close(struct cache *cache)
{
	entries_close(&cache->entries);
	log_close(&cache->log);
	cache->entries = (struct entries){ 0 };
	cache->log = (struct operation_log){ 0 };
}
