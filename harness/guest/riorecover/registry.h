/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The registry's header, and what entries and log pages have in common. The registry is untrusted
 * input: everything in it is checked before use.
 */
#ifndef REGISTRY_H
#define REGISTRY_H

#include <stdbool.h>
#include <stdint.h>

#include "memory.h"
#include "rio_registry.h"

enum registry_verdict {
	REGISTRY_VALID,
	REGISTRY_NONE,		/* never written, or nothing in it is to be recovered */
	REGISTRY_DAMAGED,	/* something is there, but no copy of the header is valid */
};

/* Free entries behind a header that holds no more, from which on a registry was there. */
#define RIO_ENOUGH_FREE	16

struct registry {
	struct rio_header header;	/* magic is 0 if none is valid */
	int copy;			/* which of the two it is */
	uint64_t start;
	/*
	 * Copies of the header that are damaged while the other is valid: 0 or 1. A crash in the
	 * middle of an update looks the same, but mount, unmount and the end of a recovery are the
	 * only ones.
	 */
	unsigned int damaged;
	/* No copy of the header is valid, and yet there was a registry: memory is not lost or new. */
	bool lost;
};

/* Opens the registry in size bytes at start; reports errors on stderr. */
enum registry_verdict registry_open(struct registry *registry,
				    struct memory *memory, uint64_t start,
				    uint64_t size);

/* The place in header.fs of the file system with that UUID, -1 if there is none. */
int registry_find(const struct registry *registry, const uint8_t uuid[16]);

/* The place of the only file system that is to be recovered, -1 if there is none or several. */
int registry_only_active(const struct registry *registry);

/* How many file systems are to be recovered, besides the one at that place; -1 for none. */
unsigned int registry_nr_active(const struct registry *registry, int but);

/* Is it to be recovered? */
bool registry_is_active(const struct registry *registry, int fs);

/* The number of pages of header, entries and log, and the address of one of them. */
uint64_t registry_nr_pages(const struct registry *registry);
uint64_t registry_page(const struct registry *registry, uint64_t i);

/* The address of a page of the log. */
uint64_t registry_log_page(const struct registry *registry, uint32_t i);

/* The seed of the checksums of the page frame at that address. */
uint32_t registry_seed(const struct registry *registry, uint64_t address);

/* The word of an entry or a log page, with its check. */
uint64_t registry_word(uint64_t content, uint32_t seed);

/* Does the word have the right check? */
bool registry_word_holds(uint64_t word, uint32_t seed);

/* Changes the word of a page of the log, by one store behind all that it says. */
void registry_set_log_word(const struct registry *registry, struct memory *memory, uint32_t i, uint64_t content);

/* Says how far the recovery of a file system is, for the next start. 0 or -EFAULT. */
int registry_set_phase(struct registry *registry, struct memory *memory, int fs, enum rio_phase phase);

#endif
