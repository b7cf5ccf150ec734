// SPDX-License-Identifier: GPL-2.0-only
/*
 * The kernel's page tables, read as the processor reads them. They may change or
 * be damaged meanwhile, so nothing outside RAM is followed.
 */
#include <linux/bitmap.h>
#include <linux/mm.h>
#include <linux/vmalloc.h>

#include "inject.h"

#define TABLE_BITS	9	/* log2 of a table's entries */

static unsigned long *kernel_tables;	/* a bit for each page of RAM */

static unsigned long ram_pages(void)
{
	return PHYS_PFN(__pa(high_memory));
}

u64 tables_entry(unsigned long at, unsigned int *bits)
{
	unsigned int levels = pgtable_l5_enabled() ? 5 : 4;
	u64 *table = __va(read_cr3_pa());

	for (*bits = PAGE_SHIFT + TABLE_BITS * (levels - 1); ; *bits -= TABLE_BITS) {
		u64 entry = READ_ONCE(table[at >> *bits & (BIT(TABLE_BITS) - 1)]);
		unsigned long pfn = PHYS_PFN(entry & PTE_PFN_MASK);

		if (!(entry & _PAGE_PRESENT))
			return 0;
		if (*bits == PAGE_SHIFT || entry & _PAGE_PSE)
			return entry;
		if (pfn >= ram_pages())
			return 0;
		__set_bit(pfn, kernel_tables);
		table = __va(PFN_PHYS(pfn));
	}
}

void tables_find(void)
{
	unsigned long at = -BIT(__VIRTUAL_MASK_SHIFT);	/* the kernel's half */
	unsigned int bits;

	bitmap_zero(kernel_tables, ram_pages());
	do {
		tables_entry(at, &bits);
		/* The pages of one table have all been reached with its first. */
		bits = max_t(unsigned int, bits, PMD_SHIFT);
		at = (at | (BIT(bits) - 1)) + 1;
	} while (at);
}

bool tables_own(unsigned long at)
{
	return test_bit(PHYS_PFN(__pa(at)), kernel_tables);
}

bool tables_writable(unsigned long at)
{
	unsigned int bits;

	return tables_entry(at, &bits) & _PAGE_RW;
}

int tables_prepare(void)
{
	kernel_tables = vzalloc(BITS_TO_LONGS(ram_pages()) * sizeof(long));
	return kernel_tables ? 0 : -ENOMEM;
}

void tables_release(void)
{
	vfree(kernel_tables);
	kernel_tables = NULL;
}
