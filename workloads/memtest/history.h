/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each file and each name has been, step by step, and which of it was made durable: the base of the rule by
 * which file systems are judged that write later (synced.h).
 *
 * fsync(2) makes durable what the file holds, and of a directory the names in it; not the name of the file itself.
 */
#ifndef MEMTEST_HISTORY_H
#define MEMTEST_HISTORY_H

#include "steps.h"

/* A change of a file's content. */
struct change {
	uint64_t step;
	uint64_t offset;	/* of a resize: the new size */
	uint64_t length;
	bool resize;
	bool sure;		/* false: it may not have happened, because the step failed or was in flight */
};

/* A file or a directory, whatever its name is. */
struct object {
	enum node_type type;
	const struct node *twin;	/* NULL: it is none */
	struct change *change;	/* of a file, in order */
	size_t changes;
	size_t synced;		/* so many of the first changes are durable */
	struct slot *slot;	/* of a directory, by name */
	size_t slots;
	uint64_t names_synced;	/* of a directory: the last step after which its names were made durable */
	struct object *dir;	/* where it is for certain; NULL: nowhere */
	bool named_durably;	/* a name of it was made durable */
	bool found;		/* by who looks for it */
	bool maybe;		/* found, or another file that its name had stood for */
};

/* What a name stands for from a step on. */
struct event {
	uint64_t step;
	struct object *object;	/* NULL: nothing */
	bool sure;
};

/* A name in a directory: the first event is that at the start. */
struct slot {
	char name[NAME_SIZE];
	struct event *event;
	size_t events;
	bool listed;		/* by who looks for it */
};

struct history {
	struct object **object;	/* the first is the test directory */
	size_t objects;
	const struct failed *failed, *failed_end;	/* those that the next steps may be */
	uint64_t oldest;	/* all is durable after this step */
	uint64_t fsync_every;	/* and what each n-th step works on; 0: of none */
};

/* The history of @model, which has no step yet and must stay. */
void history_init(struct history *history, const struct model *model, const struct options *options);
/* Adds the step that comes next, of those that are done. For steps_replay(). */
void history_before(const struct step *step, void *history);
/* Adds a step that may have begun. */
void history_in_flight(struct history *history, const struct step *step);
void history_free(struct history *history);

/* The name's slot; NULL if the directory never had it. */
struct slot *history_slot(const struct object *dir, const char *name);
/* The first event that the name may still be at: the last one that was made durable. */
size_t slot_first(const struct object *dir, const struct slot *slot);
/* Whether the object must be somewhere: no step removes it, and it and all directories above it have durable names. */
bool history_must_be(const struct history *history, const struct object *object);

#endif
