/* SPDX-License-Identifier: Apache-2.0 */
/* The same steps through each of PMDK's interfaces. */
#ifndef PMEMOBJ_API_H
#define PMEMOBJ_API_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model.h"

/* Faults of a program, planted to see that the oracle finds them. */
enum bug {
	BUG_NONE,
	BUG_MISSING_ADD,	/* what an update changes is not in the transaction's log */
	BUG_MISSING_FLUSH,	/* what an update wrote is never flushed */
	BUG_LATE_FLUSH,		/* it is flushed when the step has been reported */
};

/* What a pool has in a slot. */
struct held {
	bool object;
	bool wrong;		/* what should lead to an object does not; there is none to look at */
	uint64_t words;		/* as many as can be read */
	const uint64_t *word;
	uint64_t offset;	/* of the first word, in the file */
};

struct contents {
	uint64_t steps;
	uint64_t steps_offset;	/* in the file */
	struct held slot[SLOTS];
	uint64_t stray;		/* objects that are in no slot */
};

/* A process has one pool open. What returns false has its reason in api_error(). */
struct api {
	const char *name;
	bool transactions;	/* a step is done as a whole or not at all, or left halfway where it was cut short */
	bool tears_updates;	/* an update in flight may have written some of an object's words */
	bool pmempool;		/* the pool is one that `pmempool check` knows */
	bool (*create)(const char *path, size_t size);
	bool (*open)(const char *path, size_t size);
	void (*close)(void);
	/* What the pool has, whatever is wrong in it. False if it has nothing that could be looked at. */
	bool (*read)(struct contents *contents);
	/* What a pool that is sound has in a slot. */
	struct held (*held)(unsigned int slot);
	/* Does a step, durable when it returns but for the bug. */
	bool (*apply)(const struct model *model, const struct operation operations[OPERATIONS], enum bug bug);
	/* Flushes what the bug "late-flush" has left. */
	void (*flush_late)(void);
};

extern const struct api *const apis[];		/* ends with NULL; the first is the default */

/* Why the last call failed: errno's name or another word, and a text. */
struct api_error {
	char name[24];
	char text[200];
};
extern struct api_error api_error;

/* Notes errno and a text, whose line breaks become spaces. Returns false. */
bool api_failed(const char *text);

#endif
