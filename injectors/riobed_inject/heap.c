// SPDX-License-Identifier: GPL-2.0-only
/*
 * Find live objects of the slab allocator: draw bytes of RAM until one lies in
 * such an object. Every byte of the objects is then equally likely.
 *
 * A slab's free objects are a list in the objects themselves. The slab that a
 * processor allocates from has a second list, in the processor's own data. A
 * slab that is moving between the two has no owner and is left out, and so are
 * the events of our own watches.
 */
#include <linux/cpumask.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/swab.h>

#include "inject.h"
#include "slab.h"

/* Kernels use well over 1 % of RAM for objects: the probability of no hit is below e^-1000. */
#define TRIES	100000

/* The first fields of the struct in mm/slub.c; if they differed, no active slab would be found. */
struct kmem_cache_cpu {
	void *freelist;
	unsigned long tid;
	struct slab *slab;
};

static void *next_free(const struct kmem_cache *cache, void *object)
{
	unsigned long at = (unsigned long)object + cache->offset;
	unsigned long next = READ_ONCE(*(unsigned long *)at);

#ifdef CONFIG_SLAB_FREELIST_HARDENED
	next ^= cache->random ^ swab64(at);
#endif
	return (void *)next;
}

static bool in_slab(const struct slab *slab, const void *object)
{
	unsigned long offset = (unsigned long)object - (unsigned long)slab_address(slab);

	return offset < slab_size(slab);
}

/* The list may change or be damaged: follow it only inside its slab and for a bounded length. */
static bool listed(const struct slab *slab, void *list, const void *object)
{
	unsigned int left = slab->objects;

	for (; list && left-- && in_slab(slab, list); list = next_free(slab->slab_cache, list))
		if (list == object)
			return true;
	return false;
}

/* The list of the processor that allocates from a slab; false if there is none. */
static bool active_list(const struct slab *slab, void **list)
{
	int cpu;

	for_each_possible_cpu(cpu) {
		struct kmem_cache_cpu *active = per_cpu_ptr(slab->slab_cache->cpu_slab, cpu);

		if (READ_ONCE(active->slab) == slab) {
			*list = READ_ONCE(active->freelist);
			return true;
		}
	}
	return false;
}

static bool is_live(const struct slab *slab, const void *object)
{
	void *list = NULL;

	if (slab->frozen && !active_list(slab, &list))
		return false;
	return !listed(slab, slab->freelist, object) && !listed(slab, list, object);
}

/* A cache is itself an object; a slab that is being made may not have one yet. */
static bool is_cache(const struct kmem_cache *cache)
{
	unsigned long at = (unsigned long)cache;

	return at >= PAGE_OFFSET && at < (unsigned long)high_memory &&
	       pfn_valid(PHYS_PFN(__pa(at))) && virt_to_slab(cache);
}

static struct slab *slab_of(const void *at)
{
	struct slab *slab = pfn_valid(PHYS_PFN(__pa(at))) ? virt_to_slab(at) : NULL;

	return slab && is_cache(slab->slab_cache) ? slab : NULL;
}

/* The object a byte of a slab lies in; NULL if it is padding. */
static u8 *object_around(const struct slab *slab, u8 *at)
{
	const struct kmem_cache *cache = slab->slab_cache;
	u8 *base = slab_address(slab);
	unsigned int number = (at - base) / cache->size;
	u8 *object = base + number * cache->size;

	if (cache->flags & SLAB_RED_ZONE)
		object += cache->red_left_pad;
	if (number >= slab->objects || at < object || at >= object + cache->object_size)
		return NULL;
	return object;
}

static bool hit(u8 *at, struct flip_target *target)
{
	const struct slab *slab = slab_of(at);
	u8 *object = slab ? object_around(slab, at) : NULL;

	if (!object || !is_live(slab, object) || watch_owns(object, slab->slab_cache->object_size))
		return false;
	*target = (struct flip_target) {
		.at = at,
		.name = slab->slab_cache->name,
		.number = slab->slab_cache->object_size,
		.offset = at - object,
	};
	return true;
}

bool heap_draw(u64 *random, struct flip_target *target)
{
	unsigned long bytes = __pa(high_memory);
	unsigned int tries;

	for (tries = 0; tries < TRIES; tries++)
		if (hit(__va(next_random(random) % bytes), target))
			return true;
	return false;
}

void heap_describe(const void *block, const char **cache, unsigned long *size)
{
	const struct slab *slab = slab_of(block);

	*cache = slab ? slab->slab_cache->name : "pages";
	*size = slab ? slab->slab_cache->object_size : folio_size(virt_to_folio(block));
}

bool heap_is_live(const void *block)
{
	const struct slab *slab = slab_of(block);

	if (!slab)	/* a block of whole pages */
		return folio_ref_count(virt_to_folio(block)) > 0;
	return object_around(slab, (u8 *)block) == block && is_live(slab, block);
}
