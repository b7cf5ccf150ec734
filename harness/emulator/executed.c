// SPDX-License-Identifier: Apache-2.0
/*
 * A plugin of QEMU's emulator that records which bytes of the kernel's text one group of tasks executes.
 *
 *	-plugin file=executed.so,counters=FILE,text=START:END,irq=ADDRESS:...,exception=...,iret=...,user=...,skip=...
 *
 * FILE has one byte for each byte of the text, which is 1 if it was executed. Writing zeros begins anew. All
 * addresses are hexadecimal, without a prefix.
 *
 * The guest marks task switches (injectors/riobed_executed): a no-operation with a known displacement says that
 * from now on this processor runs a task of the group, another one that it does not. What such a task executes
 * counts, but for interrupts, and but for calls of the functions in `skip`, from there to the next return to user
 * mode. `irq` and `exception` are where these two enter the kernel, `iret` is the instruction that ends them,
 * and `user` are the ways back to user mode.
 *
 * A block counts when its last instruction is reached, so no instruction counts that was not executed.
 */
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "map.h"
#include "qemu_plugin.h"

#define PROCESSORS 64
#define PLACES 256

struct processor {
	bool of_group;
	bool skipping;
	unsigned int depth;	/* of interrupts, and of what comes within them */
};

static struct processor processors[PROCESSORS];

static void entered(struct processor *at)
{
	at->of_group = true;
	at->skipping = false;
	/* A task that was switched off in an interrupt is past it: it goes on at the end of that. */
	at->depth = 0;
}

static void left(struct processor *at)
{
	at->of_group = false;
}

static void irq(struct processor *at)
{
	at->depth++;
}

static void exception(struct processor *at)
{
	at->depth += at->depth > 0;
}

static void iret(struct processor *at)
{
	at->depth -= at->depth > 0;
}

static void user(struct processor *at)
{
	at->depth = 0;
	at->skipping = false;
}

static void skip(struct processor *at)
{
	if (!at->depth)
		at->skipping = true;
}

typedef void (*change_t)(struct processor *at);

/* What happens at which address. */
static struct {
	uint64_t address;
	change_t change;
} places[PLACES];
static unsigned int nr_places;

static uint64_t text_start, text_end;
static uint8_t *executed;

/* nopl DISPLACEMENT(%rax), as in injectors/riobed_executed. */
static const uint8_t enter_mark[] = {0x0f, 0x1f, 0x80, 0x72, 0x69, 0x62, 0x6f};
static const uint8_t leave_mark[] = {0x0f, 0x1f, 0x80, 0x72, 0x69, 0x62, 0x70};

static change_t change_at(const struct qemu_plugin_insn *insn)
{
	uint64_t address = qemu_plugin_insn_vaddr(insn);
	uint8_t code[INSN_MAX];

	if (insn_code(insn, code) == sizeof(enter_mark)) {
		if (!memcmp(code, enter_mark, sizeof(enter_mark)))
			return entered;
		if (!memcmp(code, leave_mark, sizeof(leave_mark)))
			return left;
	}
	for (unsigned int i = 0; i < nr_places; i++)
		if (places[i].address == address)
			return places[i].change;
	return NULL;
}

static void changed(unsigned int vcpu, void *change)
{
	if (vcpu < PROCESSORS)
		((change_t)change)(&processors[vcpu]);
}

/* A block as one pointer: its offset in the text, and in the low 16 bits its bytes. */
static void ran(unsigned int vcpu, void *block)
{
	const struct processor *at = &processors[vcpu];

	if (vcpu < PROCESSORS && at->of_group && !at->depth && !at->skipping)
		memset(executed + ((uintptr_t)block >> 16), 1, (uintptr_t)block & 0xffff);
}

static void translated(qemu_plugin_id_t id, struct qemu_plugin_tb *tb)
{
	size_t count = qemu_plugin_tb_n_insns(tb);
	struct qemu_plugin_insn *last = qemu_plugin_tb_get_insn(tb, count - 1);
	uint64_t start = qemu_plugin_insn_vaddr(qemu_plugin_tb_get_insn(tb, 0));
	uint64_t end = qemu_plugin_insn_vaddr(last) + qemu_plugin_insn_size(last);

	(void)id;
	for (size_t i = 0; i < count; i++) {
		struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
		change_t change = change_at(insn);

		if (change)
			qemu_plugin_register_vcpu_insn_exec_cb(insn, changed, QEMU_PLUGIN_CB_NO_REGS,
							       (void *)change);
	}
	if (start >= text_start && end <= text_end && end - start <= 0xffff)
		qemu_plugin_register_vcpu_insn_exec_cb(last, ran, QEMU_PLUGIN_CB_NO_REGS,
						       (void *)((start - text_start) << 16 | (end - start)));
}

/* ADDRESS:ADDRESS:... */
static bool add_places(const char *list, change_t change)
{
	char *end;

	for (; *list; list = *end ? end + 1 : end) {
		uint64_t address = strtoull(list, &end, 16);

		if (end == list || (*end && *end != ':') || nr_places == PLACES)
			return false;
		places[nr_places].address = address;
		places[nr_places++].change = change;
	}
	return true;
}

static bool read_argument(const char *argument, const char **path)
{
	static const struct {
		const char *name;
		change_t change;
	} lists[] = {{"irq=", irq}, {"exception=", exception}, {"iret=", iret}, {"user=", user}, {"skip=", skip}};
	char *end;

	if (!strncmp(argument, "counters=", 9)) {
		*path = argument + 9;
		return true;
	}
	if (!strncmp(argument, "text=", 5)) {
		text_start = strtoull(argument + 5, &end, 16);
		text_end = *end == ':' ? strtoull(end + 1, &end, 16) : 0;
		return !*end && text_start < text_end;
	}
	for (size_t i = 0; i < sizeof(lists) / sizeof(*lists); i++)
		if (!strncmp(argument, lists[i].name, strlen(lists[i].name)))
			return add_places(argument + strlen(lists[i].name), lists[i].change);
	return false;
}

QEMU_PLUGIN_EXPORT int qemu_plugin_version = QEMU_PLUGIN_VERSION;

QEMU_PLUGIN_EXPORT int qemu_plugin_install(qemu_plugin_id_t id, const struct qemu_info *info, int argc,
					   char **argv)
{
	const char *path = NULL;

	(void)info;
	for (int i = 0; i < argc; i++) {
		if (!read_argument(argv[i], &path)) {
			fprintf(stderr, "executed.so: %s is no argument of it\n", argv[i]);
			return -1;
		}
	}
	if (!path || !text_end) {
		fputs("executed.so: wants counters=FILE and text=START:END\n", stderr);
		return -1;
	}
	executed = map_file(path, text_end - text_start);
	if (!executed)
		return -1;
	qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
	return 0;
}
