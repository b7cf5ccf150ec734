/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The parts of the injector.
 *
 * Once faults are in place, no kernel function can be trusted, and any kernel
 * instruction may have one of our breakpoints. Code that runs in a trap or in a
 * hook, or that writes evidence, therefore calls nothing outside this module
 * except ktime_get_mono_fast_ns().
 */
#ifndef RIOBED_INJECT_H
#define RIOBED_INJECT_H

#include <linux/types.h>

#include "parse.h"

struct pt_regs;
struct seq_file;

#define INJECT_MAX	1024		/* commands in a batch */
#define WATCHES		4		/* debug registers of a processor */

/*
 * A part of the injector. prepare selects its commands from a batch, checks
 * them and does everything that may fail or sleep; release undoes that. apply
 * cannot fail; it runs on one CPU in an NMI, while all others wait in theirs.
 */
struct fault_kind {
	int (*prepare)(const struct inject_command *cmds, unsigned int count);
	void (*release)(void);
	void (*apply)(void);
	void (*show)(struct seq_file *s);
};

extern const struct fault_kind text_kind;		/* text.c */
extern const struct fault_kind flip_kind;		/* flip.c */
extern const struct fault_kind allocation_kind;		/* allocation.c */
extern const struct fault_kind copy_kind;		/* copy.c */
extern const struct fault_kind synchronization_kind;	/* synchronization.c */

/*
 * trigger.c: call apply, with all CPUs stopped, when go says so. -EIO if that is
 * at once and a CPU did not stop.
 */
int trigger_init(void);
void trigger_exit(void);
int trigger_arm(const struct inject_command *go, void (*apply)(void));
const char *trigger_state(void);
struct pt_regs *trigger_interrupted(int cpu);	/* while that CPU is stopped */

int text_init(void);
void text_exit(void);

/* What a flipped byte belongs to: an object of the heap, or the stack of a task. */
struct flip_target {
	u8 *at;
	enum inject_heap kind;		/* HEAP_ANY: a stack */
	const char *name;		/* of cache or task, or what else is known */
	unsigned long number;		/* the object's size, or the task's pid */
	unsigned long offset;		/* in the object, or from the stack's top down */
};

/* A copy that runs too far. */
struct overrun {
	const char *routine;
	const char *direction;		/* to_user, from_user, in_kernel */
	unsigned long length;		/* bytes asked for */
	unsigned int extra;
	unsigned long to;
	unsigned long caller;		/* where the routine returns to */
};

/* evidence.c: one line each to the debug console, safe in any context */
void evidence_ready(unsigned int count);
void evidence_injected(unsigned int id, u64 ns);
void evidence_activated(unsigned int id);
void evidence_overwritten(unsigned int id);
void evidence_flip(const struct inject_command *cmd, const struct flip_target *target, u8 mask);
void evidence_free(unsigned int id, const char *routine, const char *cache,
		   unsigned long size, const void *block, bool live);
void evidence_overrun(unsigned int id, const struct overrun *overrun);
void evidence_lock(unsigned int id, const char *procedure, unsigned long caller);

/* heap.c and stack.c: a random byte, when all CPUs are stopped; false if none is found */
bool heap_draw(enum inject_heap kind, u64 *random, struct flip_target *target);
bool stack_draw(u64 *random, struct flip_target *target);

int heap_prepare(void);
void heap_release(void);
void heap_apply(void);			/* before the first draw */

/* areas.c: the byte with rank bytes of areas before it; false if it cannot be changed */
int areas_prepare(void);
void areas_release(void);
unsigned long areas_bytes(void);
bool areas_find(unsigned long rank, struct flip_target *target);

/*
 * tables.c: the entry that maps an address, 0 if none does; 1 << *bits bytes have
 * the same one, or none. tables_find() finds all tables of the kernel, and
 * tables_own() says whether a byte of RAM is in one.
 */
int tables_prepare(void);
void tables_release(void);
u64 tables_entry(unsigned long at, unsigned int *bits);
bool tables_writable(unsigned long at);
void tables_find(void);
bool tables_own(unsigned long at);

/*
 * heap.c: name and object size of a block's cache, and whether the block is
 * allocated. A CPU that is in the allocator may make it inexact; safe at any time.
 */
void heap_describe(const void *block, const char **cache, unsigned long *size);
bool heap_is_live(const void *block);

/* watch.c: the first access to a byte, seen by the processors' debug registers */
int watch_prepare(unsigned int count);
void watch_release(void);
void watch_set(unsigned int number, unsigned int id, u8 *at);	/* all CPUs stopped */
void watch_apply_cpu(void);		/* then this, on each of them */
const char *watch_state(unsigned int number);
bool watch_owns(const void *object, unsigned long size);

/* The next number of a stream: splitmix64 (Steele, Lea, Flood: Fast splittable PRNGs, 2014). */
static inline u64 next_random(u64 *state)
{
	u64 z = (*state += 0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

#endif
