// SPDX-License-Identifier: GPL-2.0-only
/*
 * Find bytes of the kernel's heap: draw bytes of RAM and of areas.c until one is in
 * use. Every byte in use is then equally likely. In RAM these are the live objects
 * of the slab allocator, and page tables: the kernel's, by walking them, and those
 * of processes, by the type of their pages.
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

static bool hit_object(u8 *at, struct flip_target *target)
{
	const struct slab *slab = slab_of(at);
	u8 *object = slab ? object_around(slab, at) : NULL;

	if (!object || !is_live(slab, object) || watch_owns(object, slab->slab_cache->object_size))
		return false;
	*target = (struct flip_target) {
		.at = at,
		.kind = HEAP_SLAB,
		.name = slab->slab_cache->name,
		.number = slab->slab_cache->object_size,
		.offset = at - object,
	};
	return true;
}

static bool hit_table(u8 *at, struct flip_target *target)
{
	unsigned long address = (unsigned long)at;
	bool kernel = tables_own(address);

	if (!pfn_valid(PHYS_PFN(__pa(at))) || !(kernel || PageTable(virt_to_page(at))) ||
	    !tables_writable(address))
		return false;
	*target = (struct flip_target) {
		.at = at,
		.kind = HEAP_PAGE_TABLE,
		.name = kernel ? "kernel" : "process",
		.number = PAGE_SIZE,
		.offset = offset_in_page(at),
	};
	return true;
}

/*
 * What a page is used for, as far as its struct page says. NULL: it is free, and not
 * the first of its block, so nobody looks at its struct page before it is allocated.
 */
static const char *use_of(const struct page *page)
{
	/* Not page_folio(): a tail's pointer to its head may be damaged. */
	const struct folio *folio = (const struct folio *)page;

	if (PageTail(page))
		return "tail";
	if (PageReserved(page))
		return "reserved";
	if (PageBuddy(page))
		return "free";
	if (PageTable(page))
		return "page_table";
	if (folio_test_slab(folio))
		return "slab";
	if (folio_test_anon(folio))
		return "anonymous";
	if (folio->mapping)
		return "file";
	return page_ref_count(page) ? "other" : NULL;
}

static bool hit_area(unsigned long rank, struct flip_target *target)
{
	if (!areas_find(rank, target))
		return false;
	if (target->kind == HEAP_STRUCT_PAGE) {
		const struct page *page = pfn_to_page(target->offset / sizeof(*page));

		target->name = use_of(page);
		if (!target->name)
			return false;
		target->number = sizeof(*page);
		target->offset %= sizeof(*page);
	}
	return true;
}

bool heap_draw(enum inject_heap kind, u64 *random, struct flip_target *target)
{
	bool in_ram = kind == HEAP_SLAB || kind == HEAP_PAGE_TABLE;
	unsigned long ram = kind > HEAP_PAGE_TABLE ? 0 : __pa(high_memory);
	unsigned long bytes = ram + (in_ram ? 0 : areas_bytes());
	unsigned int tries;

	for (tries = 0; tries < TRIES; tries++) {
		unsigned long rank = next_random(random) % bytes;
		bool found = rank < ram ?
			hit_object(__va(rank), target) || hit_table(__va(rank), target) :
			hit_area(rank - ram, target);

		if (found && (kind == HEAP_ANY || target->kind == kind))
			return true;
	}
	return false;
}

int heap_prepare(void)
{
	int ret = tables_prepare();

	return ret ?: areas_prepare();
}

void heap_release(void)
{
	areas_release();
	tables_release();
}

void heap_apply(void)
{
	tables_find();
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
