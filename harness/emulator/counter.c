// SPDX-License-Identifier: Apache-2.0
/*
 * A plugin of QEMU's emulator that counts what the guest executes, on all processors together.
 *
 *	-plugin file=counter.so,counters=FILE,mark=ADDRESS[,text=START:END][,nvdimm=START:END]
 *
 * FILE holds one struct counters; harness/riobed/measure/counter.py reads it. Whenever the guest executes the
 * instruction at ADDRESS, the counts so far are copied to the next mark. The emulator must run all processors in
 * one thread. A string instruction with a repeat prefix executes anew for each repetition.
 *
 * With the addresses between which the kernel's text is, in hexadecimal without a prefix, it counts where the guest
 * executes instructions, too, without repetitions. From PROFILE on FILE then has as many counts for each mark as
 * there are places: user mode, the kernel outside its text, and each byte of the text at which an instruction can
 * begin (harness/riobed/measure/profile.py). Counts that are 0 are holes in FILE.
 *
 * With the physical addresses between which an NVDIMM is, hexadecimal too, it counts what goes there (traffic.h). This
 * takes QEMU's newer interface: the older one does not tell where in physical memory an NVDIMM is.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "counts.h"
#include "map.h"
#include "qemu_plugin.h"
#if QEMU_PLUGIN_VERSION == 3
#include "flush.h"
#endif
#include "traffic.h"

#define MARKS 16
#define PROFILE 4096

/* The numbers of the counts. Those of the places follow. */
enum { INSTRUCTIONS, REPETITIONS, INVLPG, WRMSR, NR_COUNTS };
enum { USER, ELSEWHERE, TEXT };

struct counters {
	uint64_t nr_marks;
	/* Number n is in n % MARKS. INSTRUCTIONS are all, with repetitions, and INVLPG includes INVPCID. */
	struct {
		uint64_t executed[NR_COUNTS];
		struct traffic nvdimm;
	} marks[MARKS];
};

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

static struct counters *counters;
static uint64_t mark_address;

/* 0 without a profile. */
static uint64_t nr_places, text_start, text_end;

static void mark_places(uint64_t number)
{
	uint64_t *at = (uint64_t *)((char *)counters + PROFILE) + number * nr_places;

	for (uint64_t i = 0; i < nr_places; i++) {
		uint64_t count = count_of(NR_COUNTS + i);

		if (count)
			at[i] = count;
	}
}

static void mark(unsigned int vcpu, void *data)
{
	uint64_t number = counters->nr_marks++ % MARKS;

	(void)vcpu;
	(void)data;
	for (int i = 0; i < NR_COUNTS; i++)
		counters->marks[number].executed[i] = count_of(i);
	counters->marks[number].nvdimm = traffic;
	mark_places(number);
}

static uint64_t place_of(uint64_t address)
{
	if (!(address >> 63))
		return USER;
	if (address < text_start || address >= text_end)
		return ELSEWHERE;
	return TEXT + address - text_start;
}

/* Operation codes of MOVS, CMPS, STOS, LODS, SCAS, INS and OUTS. */
static bool is_string(uint8_t code)
{
	return (code >= 0xa4 && code <= 0xa7) || (code >= 0xaa && code <= 0xaf) || (code >= 0x6c && code <= 0x6f);
}

/* Prefixes come in any order; REX is the last. */
static const uint8_t *after_prefixes(const uint8_t *at, const uint8_t *end, bool *repeated)
{
	for (*repeated = false; at < end; at++) {
		if (*at == 0xf2 || *at == 0xf3)
			*repeated = true;
		else if (!memchr("\x66\x67\x2e\x36\x3e\x26\x64\x65\xf0", *at, 9) && (*at & 0xf0) != 0x40)
			break;
	}
	return at;
}

/* What an instruction counts as, beside INSTRUCTIONS; INSTRUCTIONS if that is all. */
static int kind_of(const struct qemu_plugin_insn *insn)
{
	uint8_t bytes[INSN_MAX];
	const uint8_t *code = bytes, *end = bytes + insn_code(insn, bytes);
	bool repeated;

	code = after_prefixes(code, end, &repeated);
	if (code < end && repeated && is_string(*code))
		return REPETITIONS;
	if (end - code >= 2 && code[0] == 0x0f && code[1] == 0x30)
		return WRMSR;
	/* INVLPG is 0F 01 /7 with a memory operand, INVPCID 66 0F 38 82. */
	if (end - code >= 3 && code[0] == 0x0f && code[1] == 0x01 && (code[2] & 0x38) == 0x38 &&
	    code[2] < 0xc0)
		return INVLPG;
	if (end - code >= 3 && code[0] == 0x0f && code[1] == 0x38 && code[2] == 0x82)
		return INVLPG;
	return INSTRUCTIONS;
}

#if QEMU_PLUGIN_VERSION == 3

static void was_accessed(unsigned int vcpu, qemu_plugin_meminfo_t info, uint64_t address, void *past)
{
	struct qemu_plugin_hwaddr *hardware = qemu_plugin_get_hwaddr(info, address);

	(void)vcpu;
	if (hardware && !qemu_plugin_hwaddr_is_io(hardware))
		accessed(qemu_plugin_hwaddr_phys_addr(hardware), 1u << qemu_plugin_mem_size_shift(info),
			 qemu_plugin_mem_is_store(info), past);
}

static void watch_accesses(struct qemu_plugin_insn *insn)
{
	uint8_t code[INSN_MAX];
	struct operand operand;
	bool past = effect_of(code, insn_code(insn, code), &operand) == NON_TEMPORAL;

	qemu_plugin_register_vcpu_mem_cb(insn, was_accessed, QEMU_PLUGIN_CB_NO_REGS, QEMU_PLUGIN_MEM_RW,
					 past ? &traffic : NULL);
}

#else

static void watch_accesses(struct qemu_plugin_insn *insn)
{
	(void)insn;
}

#endif

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	(void)id;
	for (size_t i = 0; i < qemu_plugin_tb_n_insns(tb); i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		int kind = kind_of(insn);

		count_executions(insn, INSTRUCTIONS);
		if (kind != INSTRUCTIONS)
			count_executions(insn, kind);
		if (nr_places && kind != REPETITIONS)
			count_executions(insn, NR_COUNTS + place_of(qemu_plugin_insn_vaddr(insn)));
		if (watched_size)
			watch_accesses(insn);
		if (qemu_plugin_insn_vaddr(insn) == mark_address)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, mark, QEMU_PLUGIN_CB_NO_REGS, NULL);
	}
}

static bool read_range(const char *range, uint64_t *from, uint64_t *to)
{
	char *end;

	*from = strtoull(range, &end, 16);
	*to = *end == ':' ? strtoull(end + 1, &end, 16) : 0;
	return !*end && *from < *to;
}

static bool want_places(const char *range)
{
	if (!read_range(range, &text_start, &text_end))
		return false;
	nr_places = TEXT + text_end - text_start;
	return true;
}

static bool want_traffic(const char *range)
{
	uint64_t end;

	if (QEMU_PLUGIN_VERSION < 3 || !read_range(range, &watched_start, &end))
		return false;
	watched_size = end - watched_start;
	return true;
}

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc,
					   char **argv)
{
	const char *path = NULL;
	bool well = true;

	(void)info;
	for (int i = 0; i < argc; i++) {
		if (!strncmp(argv[i], "counters=", 9))
			path = argv[i] + 9;
		else if (!strncmp(argv[i], "mark=", 5))
			mark_address = strtoull(argv[i] + 5, NULL, 16);
		else if (!strncmp(argv[i], "text=", 5))
			well &= want_places(argv[i] + 5);
		else if (!strncmp(argv[i], "nvdimm=", 7))
			well &= want_traffic(argv[i] + 7);
	}
	if (!path || !mark_address || !well) {
		fputs("counter.so: wants counters=FILE, mark=ADDRESS and, for a profile, text=START:END, for an NVDIMM "
		      "nvdimm=START:END and QEMU 9.1 or later\n", stderr);
		return -1;
	}
	counters = map_file(path, PROFILE + MARKS * nr_places * sizeof(uint64_t));
	if (!counters || !make_counts(NR_COUNTS + nr_places))
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
