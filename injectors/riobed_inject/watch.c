// SPDX-License-Identifier: GPL-2.0-only
/*
 * The first access to a byte, seen by the processors' debug registers.
 *
 * Making a kernel hardware breakpoint can sleep, but the bytes are known only
 * when all CPUs are stopped. So each breakpoint is made beforehand, for a spare
 * byte that nobody touches. Later each CPU replaces the spare byte's address in
 * its debug register by the real one; after the first access it restores the
 * spare byte's. Because the registers are taken from the kernel properly, they
 * are off while the trap is handled (local_db_save()): the trap itself touches
 * objects and stacks.
 *
 * The trap comes after the access. If the byte still has its flipped value, the
 * access was a use, else a store. So an instruction that reads and writes the
 * byte (lock inc) counts as a store, and a store of the flipped value counts as
 * a use.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/hw_breakpoint.h>
#include <linux/percpu.h>
#include <linux/perf_event.h>
#include <linux/smp.h>

#include <asm/debugreg.h>

#include "inject.h"

struct watch {
	struct perf_event * __percpu *events;
	unsigned int id;
	u8 *at;
	u8 flipped;
	unsigned long seen;		/* bit 0 */
	bool used;
};

static struct watch watches[WATCHES];
static unsigned int nr_watches;

/* In a separate page: an emulator is slow on the whole page of a watched byte. */
static u8 spare[PAGE_SIZE] __aligned(PAGE_SIZE);

static unsigned long read_register(unsigned int number)
{
	unsigned long address;

	switch (number) {
	case 0:
		get_debugreg(address, 0);
		break;
	case 1:
		get_debugreg(address, 1);
		break;
	case 2:
		get_debugreg(address, 2);
		break;
	default:
		get_debugreg(address, 3);
	}
	return address;
}

static void write_register(unsigned int number, unsigned long address)
{
	switch (number) {
	case 0:
		set_debugreg(address, 0);
		break;
	case 1:
		set_debugreg(address, 1);
		break;
	case 2:
		set_debugreg(address, 2);
		break;
	default:
		set_debugreg(address, 3);
	}
}

/* On this CPU, replace the address in the register that watches a byte. */
static bool move(struct perf_event *event, const u8 *from, const u8 *to)
{
	unsigned int i;

	for (i = 0; i < WATCHES; i++) {
		if (read_register(i) != (unsigned long)from)
			continue;
		/* also for the kernel, should it ever install the event anew */
		event->hw.info.address = (unsigned long)to;
		write_register(i, (unsigned long)to);
		return true;
	}
	return false;
}

/* In a debug trap, with all watches of this CPU off until it ends. */
static void accessed(struct perf_event *event, struct perf_sample_data *data, struct pt_regs *regs)
{
	struct watch *watch = event->overflow_handler_context;

	move(event, watch->at, &spare[watch - watches]);
	if (test_and_set_bit(0, &watch->seen))
		return;		/* another CPU saw it first */
	watch->used = READ_ONCE(*watch->at) == watch->flipped;
	if (watch->used)
		evidence_activated(watch->id);
	else
		evidence_overwritten(watch->id);
}

static int make(struct watch *watch)
{
	struct perf_event * __percpu *events;
	struct perf_event_attr attr;

	hw_breakpoint_init(&attr);
	attr.bp_addr = (unsigned long)&spare[watch - watches];
	attr.bp_len = HW_BREAKPOINT_LEN_1;
	attr.bp_type = HW_BREAKPOINT_RW;
	events = register_wide_hw_breakpoint(&attr, accessed, watch);
	if (IS_ERR((void __force *)events))
		return PTR_ERR((void __force *)events);
	*watch = (struct watch) { .events = events };
	return 0;
}

static void check_cpu(void *missing)
{
	unsigned int i, number;

	for (i = 0; i < nr_watches; i++) {
		for (number = 0; number < WATCHES; number++)
			if (read_register(number) == (unsigned long)&spare[i])
				break;
		if (number == WATCHES)
			atomic_inc(missing);
	}
}

int watch_prepare(unsigned int count)
{
	atomic_t missing = ATOMIC_INIT(0);
	int ret = 0;

	while (nr_watches < count && !ret) {
		ret = make(&watches[nr_watches]);
		if (!ret)
			nr_watches++;
	}
	on_each_cpu(check_cpu, &missing, 1);
	if (!ret && atomic_read(&missing))
		ret = -EBUSY;
	if (ret)
		pr_err("no debug registers to watch flipped bytes with: error %d\n", ret);
	return ret;
}

void watch_release(void)
{
	while (nr_watches)
		unregister_wide_hw_breakpoint(watches[--nr_watches].events);
}

void watch_set(unsigned int number, unsigned int id, u8 *at)
{
	struct watch *watch = &watches[number];

	watch->id = id;
	watch->at = at;
	watch->flipped = *at;
}

void watch_apply_cpu(void)
{
	unsigned int i;

	for (i = 0; i < nr_watches; i++)
		if (watches[i].at)
			move(*this_cpu_ptr(watches[i].events), &spare[i], watches[i].at);
}

const char *watch_state(unsigned int number)
{
	if (!watches[number].seen)
		return "armed";
	return watches[number].used ? "activated" : "overwritten";
}

bool watch_owns(const void *object, unsigned long size)
{
	unsigned int i;
	int cpu;

	for (i = 0; i < nr_watches; i++) {
		for_each_online_cpu(cpu) {
			void *event = *per_cpu_ptr(watches[i].events, cpu);

			if (event >= object && event < object + size)
				return true;
		}
	}
	return false;
}
