/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a pool must hold after a step. A step is a few operations on objects, each of another slot. Which
 * operations, and what they write, follows from the seed and the step's number alone.
 */
#ifndef PMEMOBJ_MODEL_H
#define PMEMOBJ_MODEL_H

#include <stdint.h>

#define OPERATIONS 3u		/* of a step */
#define SLOTS_EACH 64u		/* an operation's own slots, so that no two operations of a step have the same */
#define SLOTS (OPERATIONS * SLOTS_EACH)
#define WORDS_MOST 511u		/* of an object; a word has 8 bytes */

enum kind {
	KIND_ALLOC,	/* a new object in an empty slot */
	KIND_FREE,
	KIND_UPDATE,	/* all words of an object get new values */
};

struct operation {
	enum kind kind;
	unsigned int slot;
	uint64_t words;
};

struct slot {
	uint64_t step;		/* the one that wrote the object; 0: there is none */
	uint64_t words;
};

struct model {
	uint64_t seed;
	uint64_t steps;
	struct slot slot[SLOTS];
};

extern const char *const kind_names[];

/* Plans the step after the model's last one. */
void model_plan(const struct model *model, struct operation operations[OPERATIONS]);
/* Does it. */
void model_apply(struct model *model, const struct operation operations[OPERATIONS]);
/* Replays the first @steps steps into @model. */
void model_replay(struct model *model, uint64_t seed, uint64_t steps);

/* The word at @index of the object that @step writes for @slot. */
uint64_t model_word(uint64_t seed, uint64_t step, unsigned int slot, uint64_t index);
/* Writes all words of such an object. */
void model_fill(uint64_t *word, uint64_t words, uint64_t seed, uint64_t step, unsigned int slot);

#endif
