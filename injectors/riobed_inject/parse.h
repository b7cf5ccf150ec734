/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Commands of the injector. No other header is needed, so the same parser works
 * in the kernel and in a test program.
 */
#ifndef RIOBED_INJECT_PARSE_H
#define RIOBED_INJECT_PARSE_H

#define INJECT_INSN_MAX		15		/* Intel SDM vol. 2, 2.3.11 */
#define INJECT_LINE_MAX		160		/* longest command, with room */
#define INJECT_ID_MAX		65535
#define INJECT_CALLS_MAX	1000000000
#define INJECT_WAIT_MAX		3600000
#define INJECT_EXTRA_MAX	1048576
#define INJECT_MS_MAX		60000
#define INJECT_WAIT_MAX		3600000		/* milliseconds */

enum inject_kind {
	INJECT_TEXT,
	INJECT_HEAP,
	INJECT_STACK,
	INJECT_ALLOCATION,
	INJECT_COPY_OVERRUN,
	INJECT_SYNCHRONIZATION,
	INJECT_GO,
};

/* What a flip in the heap hits; HEAP_ANY: the more bytes of a kind, the likelier. */
enum inject_heap {
	HEAP_ANY,
	HEAP_SLAB,
	HEAP_PAGE_TABLE,
	HEAP_STRUCT_PAGE,
	HEAP_PERCPU,
	HEAP_VMALLOC,
	HEAP_KINDS,
};

extern const char *const inject_heap_kinds[HEAP_KINDS];

enum inject_when {
	INJECT_NOW,
	INJECT_AT_NMI,
	INJECT_AFTER,
};

struct inject_command {
	enum inject_kind kind;
	unsigned int id;

	/* INJECT_TEXT */
	unsigned long addr;
	unsigned int len;		/* bytes in old and in new, 1..15 */
	unsigned char old[INJECT_INSN_MAX];
	unsigned char new[INJECT_INSN_MAX];
	unsigned int probe;		/* 0 or 1 */

	/* INJECT_HEAP, INJECT_STACK */
	unsigned int seed;
	enum inject_heap heap;		/* INJECT_HEAP */

	/* INJECT_ALLOCATION, INJECT_COPY_OVERRUN, INJECT_SYNCHRONIZATION */
	unsigned int calls;		/* fires at this many further calls, or 0 and */
	unsigned int wait;		/* at the first call so many milliseconds later */
	unsigned int ms;		/* INJECT_ALLOCATION: milliseconds until the free */
	unsigned int extra;		/* INJECT_COPY_OVERRUN: bytes, >= 1 */

	/* INJECT_GO; with INJECT_AFTER, ms is how long to wait, >= 1 */
	enum inject_when when;
};

/*
 * Parse one command of len bytes, without its newline, into *cmd. Returns NULL,
 * or an error message; *cmd is then undefined.
 */
const char *inject_parse(const char *line, unsigned long len,
			 struct inject_command *cmd);

#endif
