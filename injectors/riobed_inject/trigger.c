// SPDX-License-Identifier: GPL-2.0-only
/*
 * The moment of injection: a batch takes effect in a non-maskable interrupt, so
 * no process runs or is woken for it. The interrupt comes from outside (QEMU's
 * inject-nmi), or this CPU sends it to itself, at once or when a timer expires.
 *
 * The CPU that gets it first sends it to the others. When all have come, it
 * applies the batch while they wait. Each CPU claims one interrupt after the
 * batch is armed, and only one that no other handler claims: later ones go the
 * kernel's way, for example to a panic.
 *
 * Interrupted code may hold any lock, so until the batch is applied this calls
 * only what the kernel calls in an NMI, and after that what inject.h allows.
 * No sync_core(): it unmasks NMIs, and the return from one is itself serializing.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/atomic.h>
#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/percpu.h>
#include <linux/smp.h>
#include <linux/timekeeping.h>

#include <asm/apic.h>
#include <asm/nmi.h>

#include "inject.h"

#define GATHER_NS	NSEC_PER_SEC	/* an emulator runs the CPUs in turn */
#define TRIES		100000000	/* looks at the state, until an NMI counts as lost */

/* What comes before APPLIED is not decided yet. */
enum { IDLE, ARMED, GOING, APPLIED, FAILED };

static atomic_t state = ATOMIC_INIT(IDLE);
static atomic_t arrived;
static void (*apply)(void);
static DEFINE_PER_CPU(struct pt_regs *, interrupted);
static struct hrtimer timer;

struct pt_regs *trigger_interrupted(int cpu)
{
	return per_cpu(interrupted, cpu);
}

/* Stop the other CPUs; false if one does not come. */
static bool gather(void)
{
	unsigned int others = num_online_cpus() - 1;
	u64 start = ktime_get_mono_fast_ns();

	if (others)
		apic->send_IPI_allbutself(NMI_VECTOR);
	while (atomic_read(&arrived) != others) {
		if (ktime_get_mono_fast_ns() - start > GATHER_NS)
			return false;
		cpu_relax();
	}
	return true;
}

static void lead(void)
{
	if (!gather()) {
		atomic_set(&state, FAILED);
		return;
	}
	apply();
	watch_apply_cpu();
	/* pairs with the acquire in follow(): the text is changed, then told */
	atomic_set_release(&state, APPLIED);
}

static void follow(void)
{
	atomic_inc(&arrived);
	/* pairs with the release in lead() */
	while (atomic_read_acquire(&state) == GOING)
		cpu_relax();
	if (atomic_read(&state) == APPLIED)
		watch_apply_cpu();
}

static int nmi(unsigned int type, struct pt_regs *regs)
{
	if (atomic_read(&state) == IDLE || this_cpu_read(interrupted))
		return NMI_DONE;
	this_cpu_write(interrupted, regs);
	if (atomic_cmpxchg(&state, ARMED, GOING) == ARMED)
		lead();
	else
		follow();
	return NMI_HANDLED;
}

static struct nmiaction nmi_action = {
	.list = LIST_HEAD_INIT(nmi_action.list),
	.handler = nmi,
	.name = KBUILD_MODNAME,
	.max_duration = U64_MAX,	/* no complaint in the log about how long it takes */
};

static void send(void)
{
	atomic_set(&state, ARMED);
	apic->send_IPI(get_cpu(), NMI_VECTOR);
	put_cpu();
}

static enum hrtimer_restart expired(struct hrtimer *timer)
{
	send();
	return HRTIMER_NORESTART;
}

static int at_once(void)
{
	unsigned int tries;

	send();
	for (tries = 0; tries < TRIES && atomic_read(&state) < APPLIED; tries++)
		cpu_relax();
	return atomic_read(&state) == APPLIED ? 0 : -EIO;
}

int trigger_arm(const struct inject_command *go, void (*to_apply)(void))
{
	apply = to_apply;
	switch (go->when) {
	case INJECT_NOW:
		return at_once();
	case INJECT_AT_NMI:
		atomic_set(&state, ARMED);
		break;
	case INJECT_AFTER:
		hrtimer_start(&timer, ms_to_ktime(go->ms), HRTIMER_MODE_REL_HARD);
	}
	return 0;
}

const char *trigger_state(void)
{
	static const char *const names[] = {
		[IDLE] = "idle", [ARMED] = "armed", [GOING] = "armed",
		[APPLIED] = "applied", [FAILED] = "failed",
	};

	return hrtimer_active(&timer) ? "armed" : names[atomic_read(&state)];
}

int trigger_init(void)
{
	hrtimer_init(&timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_HARD);
	timer.function = expired;
	return __register_nmi_handler(NMI_UNKNOWN, &nmi_action);
}

void trigger_exit(void)
{
	unregister_nmi_handler(NMI_UNKNOWN, nmi_action.name);
}
