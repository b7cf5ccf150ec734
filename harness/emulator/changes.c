// SPDX-License-Identifier: Apache-2.0
/*
 * A plugin of QEMU's emulator that logs what changes in the registry and in each page that it lists.
 *
 *	-plugin file=changes.so,counters=FILE,registry=START:END,pages=COUNT
 *
 * The registry is at a physical address, hexadecimal, without a prefix: its header page, then one entry for each of
 * COUNT pages of RAM (include/uapi/linux/rio_registry.h of the kernel series). FILE has one struct control and, from LOG
 * on, the log; harness/riobed/sweep/changes.py reads and writes it.
 *
 * The emulator calls back when the store is made, so what was stored is in RAM. What a device stores is not seen. All
 * processors must be emulated in one thread.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "map.h"
#include "qemu_plugin.h"

#define PAGE_SIZE 4096
#define LOG PAGE_SIZE
#define ROOM (256ull << 20)
#define ENTRY 32
#define STATE_SHIFT 32
#define STATE_MASK 0x0f
#define METADATA 0x40

/* Only `used` and `stores` are set here. */
struct control {
	uint64_t enabled;
	uint64_t used;		/* bytes of the log; more than ROOM if it did not fit */
	uint64_t stores;	/* of the first processor into the registry and into metadata, those of a copy once */
	uint64_t every;		/* after how many of them it waits, so that another processor is next; 0: never */
	uint64_t pause;		/* how long, in ms */
	uint64_t device, device_end;	/* where a store sends a request to the disk; it is logged, too */
	char ram[1024];		/* the file that is the guest's RAM */
};

enum kind { STORE, PAGE, DEVICE };

struct change {
	uint64_t physical;
	uint32_t size;		/* the bytes follow */
	uint32_t kind;
};

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

static struct control *control;
static const uint8_t *ram;
enum watched { NOT, TOUCHED, LISTED };
static uint8_t *watched;	/* of each page: enum watched */
static uint64_t registry, registry_end, pages, was_enabled;
static struct qemu_plugin_register *gs_base;
static GByteArray *value;

static void note(enum kind kind, uint64_t physical, uint32_t size)
{
	struct change change = {.physical = physical, .size = size, .kind = kind};
	uint8_t *at = (uint8_t *)control + LOG + control->used;

	control->used += sizeof(change) + size;
	if (control->used > ROOM)
		return;
	memcpy(at, &change, sizeof(change));
	if (size)
		memcpy(at + sizeof(change), ram + physical, size);
}

static uint8_t state_of(uint64_t page)
{
	uint64_t word;

	memcpy(&word, ram + registry + PAGE_SIZE + page * ENTRY, sizeof(word));
	return word >> STATE_SHIFT;
}

static bool is_listed(uint64_t page)
{
	return state_of(page) & STATE_MASK;
}

static void map_ram(void)
{
	int fd = open(control->ram, O_RDONLY | O_CLOEXEC);

	ram = fd < 0 ? MAP_FAILED : mmap(NULL, pages * PAGE_SIZE, PROT_READ, MAP_SHARED, fd, 0);
	if (ram == MAP_FAILED) {
		perror(control->ram);
		abort();
	}
	close(fd);
}

/* Returns whether the log is being written. */
static bool is_enabled(void)
{
	if (control->enabled && !was_enabled) {
		if (!ram)
			map_ram();
		for (uint64_t page = 0; page < pages; page++)
			watched[page] = is_listed(page) ? LISTED : NOT;
	}
	was_enabled = control->enabled;
	return was_enabled;
}

/*
 * A store into a page's entry: what belongs to the word is stored first, while the page is not listed. A device may
 * fill the page until then, unseen, so its content is logged when the word lists it.
 */
static void look_at_entry(uint64_t page, uint64_t offset)
{
	bool listed = is_listed(page);

	if (watched[page] == NOT || (watched[page] == TOUCHED && listed))
		note(PAGE, page * PAGE_SIZE, PAGE_SIZE);
	if (listed)
		watched[page] = LISTED;
	else
		watched[page] = offset ? TOUCHED : NOT;
}

/*
 * Is it the first processor that stores? With all in one thread QEMU calls back with the number of the one that was
 * the first to execute the code (accel/tcg/plugin-gen.c, gen_cpu_index()). In the kernel GS points to the processor's
 * own memory, and the first processor's lies lowest (mm/percpu.c, pcpu_embed_first_chunk()).
 */
static bool by_the_first(void)
{
	static uint64_t lowest = UINT64_MAX;
	uint64_t base = 0;

	if (!gs_base)
		return true;
	g_byte_array_set_size(value, 0);
	qemu_plugin_read_register(gs_base, value);
	memcpy(&base, value->data, value->len < sizeof(base) ? value->len : sizeof(base));
	if (base < lowest)
		lowest = base;
	return base == lowest;
}

/* Nothing else runs before a string instruction has ended, so that to wait at each of its stores is of no use. */
static bool goes_on(uint64_t physical, uint32_t size)
{
	static uint64_t start, end;
	bool found = physical == end || physical + size == start;

	start = physical;
	end = physical + size;
	return found;
}

static void let_others_run(void)
{
	struct timespec wait = {.tv_nsec = control->pause * 1000000};

	if (!(++control->stores % (control->every ?: UINT64_MAX)))
		nanosleep(&wait, NULL);
}

static void was_stored(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *unused)
{
	struct qemu_plugin_hwaddr *hardware;
	bool in_registry;
	uint64_t physical, page;
	uint32_t size;

	(void)vcpu;
	(void)unused;
	if (!is_enabled())
		return;
	hardware = qemu_plugin_get_hwaddr(info, address);
	if (!hardware)
		return;
	physical = qemu_plugin_hwaddr_phys_addr(hardware);
	if (qemu_plugin_hwaddr_is_io(hardware)) {
		if (physical >= control->device && physical < control->device_end)
			note(DEVICE, physical, 0);
		return;
	}
	size = 1u << qemu_plugin_mem_size_shift(info);
	in_registry = physical >= registry && physical + size <= registry_end;
	if (in_registry) {
		page = (physical - registry - PAGE_SIZE) / ENTRY;
		if (physical >= registry + PAGE_SIZE && page < pages)
			look_at_entry(page, physical % ENTRY);
	} else if (physical / PAGE_SIZE >= pages || !watched[physical / PAGE_SIZE]) {
		return;
	}
	note(STORE, physical, size);
	if ((in_registry || state_of(physical / PAGE_SIZE) & METADATA) && by_the_first() && !goes_on(physical, size))
		let_others_run();
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++)
		qemu_plugin_register_vcpu_mem_cb(qemu_plugin_tb_get_insn(tb, i), was_stored,
						 gs_base ? QEMU_PLUGIN_CB_R_REGS : QEMU_PLUGIN_CB_NO_REGS,
						 QEMU_PLUGIN_MEM_W, NULL);
}

/* With one processor it is not needed, and stores need no registers. */
static void find_register(qemu_plugin_id_t id, unsigned int vcpu)
{
	GArray *found = vcpu ? qemu_plugin_get_registers() : NULL;

	(void)id;
	for (unsigned int i = 0; found && i < found->len; i++) {
		const qemu_plugin_reg_descriptor *each = (qemu_plugin_reg_descriptor *)found->data + i;

		if (!strcmp(each->name, "gs_base"))
			gs_base = each->handle;
	}
}

static void read_range(const char *text, uint64_t *start, uint64_t *end)
{
	char *rest;

	*start = strtoull(text, &rest, 16);
	*end = *rest == ':' ? strtoull(rest + 1, NULL, 16) : 0;
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc,
					   char **argv)
{
	const char *path = NULL;

	(void)info;
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "counters=", 9))
			path = argv[i] + 9;
		else if (!strncmp(argv[i], "registry=", 9))
			read_range(argv[i] + 9, &registry, &registry_end);
		else if (!strncmp(argv[i], "pages=", 6))
			pages = strtoull(argv[i] + 6, NULL, 10);
	}
	if (!path || !pages || registry + PAGE_SIZE + pages * ENTRY > registry_end) {
		fputs("changes.so: wants counters=FILE, registry=START:END and pages=COUNT\n", stderr);
		return -1;
	}
	watched = calloc(pages, 1);
	control = map_file(path, LOG + ROOM);
	if (!watched || !control)
		return -1;
	value = g_byte_array_new();
	qemu_plugin_register_vcpu_init_cb(id, find_register);
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
