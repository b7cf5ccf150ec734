// SPDX-License-Identifier: Apache-2.0
/*
 * A plugin of QEMU's emulator that knows which cache lines of an NVDIMM a loss of power would take: those that were
 * stored to and not written back, or written back and not fenced.
 *
 *	-plugin file=lines.so,counters=FILE,nvdimm=PATH,start=ADDRESS,size=BYTES
 *
 * PATH is the NVDIMM's content, which QEMU maps, too. It starts at a physical ADDRESS; both numbers are hexadecimal,
 * without a prefix. FILE has one struct state and, from CONTENT on, what would be in the NVDIMM after a loss of power;
 * harness/riobed/vm/nvdimm/persistence.py makes it and reads it.
 *
 * A line is a pair of contents: what was stored, and what is durable. A flush notes the line as it is, the next fence
 * makes that durable. This is Intel's ADR (SDM, volume 1, section 12.1, and "Persistent Memory Programming" in
 * SNIA's NVM Programming Model 1.2). The emulator must run all processors in one thread.
 *
 * A flush names a virtual address, and QEMU tells none of its physical one. It is known for the direct map, where all
 * flushes of the kernel are, and for each page that was stored to under the same address. All others are counted.
 */
#include <stdio.h>
#include <stdlib.h>

#include "flush.h"
#include "map.h"
#include "qemu_plugin.h"

#define LINE 64
#define CONTENT 4096
#define PAGES 4096
#define PAGE_SHIFT 12
/* Without KASLR (Documentation/arch/x86/x86_64/mm.rst): with four levels of page tables, and with five. */
#define DIRECT_4 0xffff888000000000u
#define DIRECT_5 0xff11000000000000u
#define DIRECT_4_SIZE (64ull << 40)
#define DIRECT_5_SIZE (32ull << 50)

struct state {
	uint64_t epoch;		/* the harness adds 1 when it has changed contents: what was noted is void */
	uint64_t stores, non_temporal, flushes, unknown_flushes, fences, written_lines;
};

static struct state *state;
static uint8_t *stored, *durable;
static uint64_t start, size;

/* Lines as they were when they were flushed; the next fence makes them durable. */
static struct noted {
	uint64_t line;
	uint8_t content[LINE];
} *noted;
static size_t nr_noted, room_noted;
static uint64_t noted_epoch;

/* Virtual pages of which the physical one is known, but for those of the direct map. */
static struct page {
	uint64_t virtual, physical;
} pages[PAGES];

static struct qemu_plugin_register *registers[16];
static GByteArray *value;

static void forget_if_void(void)
{
	if (noted_epoch != state->epoch) {
		nr_noted = 0;
		memset(pages, 0, sizeof(pages));
	}
	noted_epoch = state->epoch;
}

static void note(uint64_t line)
{
	forget_if_void();
	if (nr_noted == room_noted) {
		room_noted = room_noted ? 2 * room_noted : 1024;
		noted = realloc(noted, room_noted * sizeof(*noted));
		if (!noted) {
			fputs("lines.so: no memory\n", stderr);
			abort();
		}
	}
	noted[nr_noted].line = line;
	memcpy(noted[nr_noted++].content, stored + line * LINE, LINE);
}

static void make_durable(void)
{
	forget_if_void();
	for (size_t i = 0; i < nr_noted; i++)
		memcpy(durable + noted[i].line * LINE, noted[i].content, LINE);
	state->written_lines += nr_noted;
	nr_noted = 0;
}

/*
 * CLFLUSH is ordered with stores and with other CLFLUSH (SDM, volume 2, CLFLUSH), and not with CLWB, CLFLUSHOPT or stores
 * past the caches that wait for a fence. What was noted of the line itself is older.
 */
static void make_line_durable(uint64_t line)
{
	size_t kept = 0;

	forget_if_void();
	/* The others keep their order: of a line that was noted twice the later content counts. */
	for (size_t i = 0; i < nr_noted; i++)
		if (noted[i].line != line)
			noted[kept++] = noted[i];
	nr_noted = kept;
	memcpy(durable + line * LINE, stored + line * LINE, LINE);
	state->written_lines++;
}

static void fenced(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	if (!nr_noted)
		return;
	state->fences++;
	make_durable();
}

static void all_flushed(unsigned int vcpu, void *data)
{
	(void)vcpu;
	(void)data;
	memcpy(durable, stored, size);
	nr_noted = 0;
}

static bool in_direct_map(uint64_t address, uint64_t *physical)
{
	if (address - DIRECT_4 < DIRECT_4_SIZE)
		*physical = address - DIRECT_4;
	else if (address - DIRECT_5 < DIRECT_5_SIZE)
		*physical = address - DIRECT_5;
	else
		return false;
	return true;
}

static void remember_page(uint64_t address, uint64_t physical)
{
	struct page *page = &pages[address >> PAGE_SHIFT & (PAGES - 1)];
	uint64_t known;

	if (in_direct_map(address, &known))
		return;
	forget_if_void();
	page->virtual = address >> PAGE_SHIFT;
	page->physical = physical >> PAGE_SHIFT;
}

/* The address leads elsewhere now. */
static void forget_page(uint64_t address)
{
	struct page *page = &pages[address >> PAGE_SHIFT & (PAGES - 1)];

	if (page->virtual == address >> PAGE_SHIFT)
		*page = (struct page){0};
}

/* The physical address of a virtual one; false if it is not known. */
static bool physical_of(uint64_t address, uint64_t *physical)
{
	const struct page *page = &pages[address >> PAGE_SHIFT & (PAGES - 1)];

	if (in_direct_map(address, physical))
		return true;
	forget_if_void();
	if (page->virtual != address >> PAGE_SHIFT || !page->physical)
		return false;
	*physical = page->physical << PAGE_SHIFT | (address & ((1 << PAGE_SHIFT) - 1));
	return true;
}

static void was_stored(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *non_temporal)
{
	struct qemu_plugin_hwaddr *hardware = qemu_plugin_get_hwaddr(info, address);
	uint64_t physical, last;

	(void)vcpu;
	if (!hardware || qemu_plugin_hwaddr_is_io(hardware))
		return;
	physical = qemu_plugin_hwaddr_phys_addr(hardware);
	if (physical - start >= size) {
		forget_page(address);
		return;
	}
	remember_page(address, physical);
	state->stores++;
	if (!non_temporal)
		return;
	state->non_temporal++;
	last = physical - start + (1u << qemu_plugin_mem_size_shift(info)) - 1;
	for (uint64_t line = (physical - start) / LINE; line <= last / LINE && line < size / LINE; line++)
		note(line);
}

static uint64_t register_value(int number)
{
	uint64_t found = 0;

	g_byte_array_set_size(value, 0);
	if (registers[number])
		qemu_plugin_read_register(registers[number], value);
	memcpy(&found, value->data, value->len < sizeof(found) ? value->len : sizeof(found));
	return found;
}

struct flush {
	struct operand operand;
	uint64_t next;	/* the address of the next instruction */
	bool now;
};

static void flushed(unsigned int vcpu, void *data)
{
	const struct flush *flush = data;
	const struct operand *operand = &flush->operand;
	uint64_t address = operand->displacement + (operand->relative ? flush->next : 0);
	uint64_t physical, line;

	(void)vcpu;
	if (operand->base >= 0)
		address += register_value(operand->base);
	if (operand->index >= 0)
		address += register_value(operand->index) << operand->shift;
	if (operand->segment || !physical_of(address, &physical)) {
		state->unknown_flushes++;
		return;
	}
	if (physical - start >= size)
		return;
	state->flushes++;
	line = (physical - start) / LINE;
	if (flush->now)
		make_line_durable(line);
	else
		note(line);
}

static void watch_flush(struct qemu_plugin_insn *insn, const struct operand *operand, bool now)
{
	/* QEMU does not tell when it forgets a translation, so this is never freed. */
	struct flush *flush = malloc(sizeof(*flush));

	if (!flush) {
		fputs("lines.so: no memory\n", stderr);
		abort();
	}
	*flush = (struct flush){*operand, qemu_plugin_insn_vaddr(insn) + qemu_plugin_insn_size(insn), now};
	qemu_plugin_register_vcpu_insn_exec_cb(insn, flushed, QEMU_PLUGIN_CB_R_REGS, flush);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		uint8_t code[INSN_MAX];
		struct operand operand;
		enum effect effect = effect_of(code, insn_code(insn, code), &operand);

		if (effect == FLUSH || effect == FLUSH_NOW)
			watch_flush(insn, &operand, effect == FLUSH_NOW);
		else if (effect == FENCE)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, fenced, QEMU_PLUGIN_CB_NO_REGS, NULL);
		else if (effect == FLUSH_ALL)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, all_flushed, QEMU_PLUGIN_CB_NO_REGS, NULL);
		qemu_plugin_register_vcpu_mem_cb(insn, was_stored, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W,
						 effect == NON_TEMPORAL ? &pages : NULL);
	}
}

static void find_registers(qemu_plugin_id_t id, unsigned int vcpu)
{
	/* In the order in which instructions number them. */
	static const char *const names[] = {"rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi",
					    "r8",  "r9",  "r10", "r11", "r12", "r13", "r14", "r15"};
	GArray *found = qemu_plugin_get_registers();

	(void)id;
	(void)vcpu;
	for (unsigned int i = 0; i < found->len; i++) {
		const qemu_plugin_reg_descriptor *each = (qemu_plugin_reg_descriptor *)found->data + i;

		for (int number = 0; number < 16; number++)
			if (!strcmp(each->name, names[number]))
				registers[number] = each->handle;
	}
}

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc,
					   char **argv)
{
	const char *file = NULL, *nvdimm = NULL;

	(void)info;
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "counters=", 9))
			file = argv[i] + 9;
		else if (!strncmp(argv[i], "nvdimm=", 7))
			nvdimm = argv[i] + 7;
		else if (!strncmp(argv[i], "start=", 6))
			start = strtoull(argv[i] + 6, NULL, 16);
		else if (!strncmp(argv[i], "size=", 5))
			size = strtoull(argv[i] + 5, NULL, 16);
	}
	if (!file || !nvdimm || !start || !size || size % LINE) {
		fputs("lines.so: wants counters=FILE, nvdimm=PATH, start=ADDRESS and size=BYTES\n", stderr);
		return -1;
	}
	state = map_file(file, CONTENT + size);
	stored = map_file(nvdimm, size);
	value = g_byte_array_new();
	if (!state || !stored || !value)
		return -1;
	durable = (uint8_t *)state + CONTENT;
	qemu_plugin_register_vcpu_init_cb(id, find_registers);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
