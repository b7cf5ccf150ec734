// SPDX-License-Identifier: GPL-2.0-only
/*
 * Memory of the heap that is not in the direct map, or is at a fixed place there:
 * the map of struct pages, per-CPU memory, and areas of vmalloc().
 *
 * The areas are listed when a batch is loaded, because the kernel's own list has
 * locks. Those made later are not hit, and of those freed meanwhile nothing is
 * mapped any more. Left out are kernel stacks, which are a class of their own, what
 * is mapped but not allocated there, and what this module or Rio has allocated: a
 * kernel without Rio in use does not have its tables, and modes have to have the same
 * target.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/kprobes.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/percpu.h>
#include <linux/vmalloc.h>

#include <asm/ibt.h>

#include "inject.h"
#include "line.h"

#define AREAS	2048

struct area {
	unsigned long start;
	unsigned long bytes;
	enum inject_heap kind;
	char name[NAME_MAX_SHOWN];	/* who allocated it */
};

static struct area areas[AREAS];
static unsigned int nr_areas;

/* Of functions that are not exported. */
static unsigned long address_of(const char *function)
{
	struct kprobe probe = { .symbol_name = function, .flags = KPROBE_FLAG_DISABLED };
	unsigned long at;
	int ret = register_kprobe(&probe);

	if (ret) {
		pr_err("cannot find %s(): error %d\n", function, ret);
		return 0;
	}
	at = (unsigned long)probe.addr;
	unregister_kprobe(&probe);
	if (is_endbr(*(u32 *)(at - ENDBR_INSN_SIZE)))
		at -= ENDBR_INSN_SIZE;
	return at;
}

static int add(enum inject_heap kind, unsigned long start, unsigned long bytes)
{
	if (nr_areas == AREAS) {
		pr_err("more than %u areas of memory\n", AREAS);
		return -ENOSPC;
	}
	areas[nr_areas++] = (struct area) { .start = start, .bytes = bytes, .kind = kind };
	return 0;
}

/* The pages of each CPU's first unit that its boot allocator has not got back. */
static int add_units(void)
{
	int cpu, ret = 0;

	for_each_possible_cpu(cpu) {
		unsigned long start = per_cpu_offset(cpu), end = start;

		while (virt_addr_valid(end) && PageReserved(virt_to_page(end)))
			end += PAGE_SIZE;
		if (!ret && end != start) {
			ret = add(HEAP_PERCPU, start, end - start);
			snprintf(areas[nr_areas - 1].name, NAME_MAX_SHOWN, "cpu%d", cpu);
		}
	}
	return ret;
}

static bool is_stack(const struct vm_struct *vm)
{
	return get_vm_area_size(vm) == THREAD_SIZE &&
	       IS_ALIGNED((unsigned long)vm->addr, THREAD_ALIGN);
}

static int add_allocated(const struct vm_struct *vm, unsigned long percpu)
{
	unsigned long caller = (unsigned long)vm->caller;
	char name[NAME_MAX_SHOWN];
	int ret;

	snprintf(name, sizeof(name), "%ps", vm->caller);
	if ((vm->flags & (VM_ALLOC | VM_UNINITIALIZED)) != VM_ALLOC || is_stack(vm) ||
	    within_module(caller, THIS_MODULE) || strstarts(name, "rio_"))
		return 0;
	ret = add(caller == percpu ? HEAP_PERCPU : HEAP_VMALLOC, (unsigned long)vm->addr,
		  get_vm_area_size(vm));
	if (!ret)
		strscpy(areas[nr_areas - 1].name, name);
	return ret;
}

static int add_vmalloc(void)
{
	struct vm_struct *(*find)(const void *at) = (void *)address_of("find_vm_area");
	unsigned long percpu = address_of("pcpu_get_vm_areas");
	unsigned long at = VMALLOC_START, next;
	unsigned int bits;
	int ret = 0;

	if (!find || !percpu)
		return -ENOENT;
	for (; at < VMALLOC_END && !ret; at = next) {
		u64 entry = tables_entry(at, &bits);
		struct vm_struct *vm = entry ? find((void *)at) : NULL;

		next = (at | (BIT(bits) - 1)) + 1;
		if (!vm || (unsigned long)vm->addr + vm->size <= at)
			continue;
		next = (unsigned long)vm->addr + vm->size;
		ret = add_allocated(vm, percpu);
	}
	return ret;
}

int areas_prepare(void)
{
	unsigned long pages = PHYS_PFN(__pa(high_memory));
	int ret = add(HEAP_STRUCT_PAGE, (unsigned long)pfn_to_page(0), pages * sizeof(struct page));

	if (!ret)
		ret = add_units();
	if (!ret)
		ret = add_vmalloc();
	return ret;
}

void areas_release(void)
{
	nr_areas = 0;
}

unsigned long areas_bytes(void)
{
	unsigned long bytes = 0;
	unsigned int i;

	for (i = 0; i < nr_areas; i++)
		bytes += areas[i].bytes;
	return bytes;
}

bool areas_find(unsigned long rank, struct flip_target *target)
{
	const struct area *area = areas;

	for (; rank >= area->bytes; area++)
		rank -= area->bytes;
	*target = (struct flip_target) {
		.at = (u8 *)area->start + rank,
		.kind = area->kind,
		.name = area->name,
		.number = area->bytes,
		.offset = rank,
	};
	return tables_writable(area->start + rank);
}
