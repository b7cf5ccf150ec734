// SPDX-License-Identifier: Apache-2.0
/*
 * A plugin of QEMU's emulator that notes which instructions store into a range of physical memory.
 *
 *	-plugin file=stores.so,counters=FILE,range=START:END
 *
 * START and END are physical addresses, hexadecimal, without a prefix. FILE holds one struct stores;
 * harness/riobed/propagation/stores.py reads it. It takes QEMU's newer interface: the older one does not tell where in
 * physical memory an NVDIMM is.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "map.h"
#include "qemu_plugin.h"

#define NOTED 4096

struct stores {
	uint64_t total;	/* only the first NOTED are noted */
	struct {
		uint64_t instruction;	/* virtual addresses */
		uint64_t address;
		uint64_t physical;
		uint64_t bytes;
	} noted[NOTED];
};

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

static struct stores *stores;
static uint64_t start, end;

static void was_stored(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *instruction)
{
	struct qemu_plugin_hwaddr *hardware = qemu_plugin_get_hwaddr(info, address);
	uint64_t bytes = 1u << qemu_plugin_mem_size_shift(info), physical, number;

	(void)vcpu;
	if (!hardware || qemu_plugin_hwaddr_is_io(hardware))
		return;
	physical = qemu_plugin_hwaddr_phys_addr(hardware);
	if (physical >= end || physical + bytes <= start)
		return;
	/* Each processor may have a thread. */
	number = __atomic_fetch_add(&stores->total, 1, __ATOMIC_RELAXED);
	if (number >= NOTED)
		return;
	stores->noted[number].instruction = (uintptr_t)instruction;
	stores->noted[number].address = address;
	stores->noted[number].physical = physical;
	stores->noted[number].bytes = bytes;
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);

		qemu_plugin_register_vcpu_mem_cb(insn, was_stored, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_W,
						 (void *)(uintptr_t)qemu_plugin_insn_vaddr(insn));
	}
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc,
					   char **argv)
{
	const char *path = NULL;
	char *rest;

	(void)info;
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "counters=", 9)) {
			path = argv[i] + 9;
		} else if (!strncmp(argv[i], "range=", 6)) {
			start = strtoull(argv[i] + 6, &rest, 16);
			end = *rest == ':' ? strtoull(rest + 1, NULL, 16) : 0;
		}
	}
	if (!path || start >= end) {
		fputs("stores.so: wants counters=FILE and range=START:END\n", stderr);
		return -1;
	}
	stores = map_file(path, sizeof(*stores));
	if (!stores)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
