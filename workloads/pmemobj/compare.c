// SPDX-License-Identifier: Apache-2.0
#include "compare.h"

#include <inttypes.h>

#define WORD sizeof(uint64_t)

/* What a slot may have: the model's object, and where it is being written, the one that replaces it. */
struct choice {
	const struct slot *old;
	const struct slot *new;	/* NULL: nothing else */
	bool torn;		/* or some words of either */
};

/* The first word that is none of @want's; held->words if all are. */
static uint64_t first_wrong(const struct held *held, const struct choice *want, uint64_t seed, unsigned int slot)
{
	for (uint64_t i = 0; i < held->words; i++)
		if (held->word[i] != model_word(seed, want->old->step, slot, i) &&
		    !(want->torn && held->word[i] == model_word(seed, want->new->step, slot, i)))
			return i;
	return held->words;
}

static uint64_t wrong_words(const struct held *held, const struct choice *want, uint64_t seed, unsigned int slot)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < held->words; i++)
		count += held->word[i] != model_word(seed, want->old->step, slot, i);
	return count;
}

bool slot_equal(const struct held *held, const struct slot *want, uint64_t seed, unsigned int slot)
{
	struct choice only = { .old = want };

	if (held->wrong || held->object != !!want->step || held->words != want->words)
		return false;
	return first_wrong(held, &only, seed, slot) == held->words;
}

static bool fits(const struct held *held, const struct choice *want, uint64_t seed, unsigned int slot)
{
	if (slot_equal(held, want->old, seed, slot) || (want->new && slot_equal(held, want->new, seed, slot)))
		return true;
	return want->torn && held->object && held->words == want->old->words &&
	       first_wrong(held, want, seed, slot) == held->words;
}

/* Adds the difference of a slot, and what it loses. */
static void differs(struct report *report, const struct held *held, const struct choice *want, uint64_t seed,
		    unsigned int slot)
{
	uint64_t step = want->old->step, bytes = want->old->words * WORD, first, wrong;

	report->objects_lost += !!step;
	if (held->object && held->words == want->old->words && step) {
		first = first_wrong(held, want, seed, slot);
		wrong = wrong_words(held, want, seed, slot) * WORD;
		report->bytes_lost += wrong;
		report_add(report, "content", held->offset + first * WORD, wrong,
			   "slot %u: %" PRIu64 " bytes are not of step %" PRIu64, slot, wrong, step);
		return;
	}
	report->bytes_lost += bytes;
	if (held->wrong)
		report_add(report, "content", held->offset, WORD, "slot %u leads to no object", slot);
	else if (!held->object)
		report_add(report, "missing", 0, 0, "slot %u: the object of step %" PRIu64, slot, step);
	else if (!step)
		report_add(report, "extra", held->offset, held->words * WORD, "slot %u should be empty", slot);
	else
		report_add(report, "size", held->offset, 0, "slot %u: %" PRIu64 " words, want the %" PRIu64
			   " of step %" PRIu64, slot, held->words, want->old->words, step);
}

void compare(struct report *report, const struct contents *contents, const struct model *model,
	     const struct operation *in_flight, bool tears)
{
	uint64_t objects = 0, stray;
	struct model next = *model;

	if (in_flight)
		model_apply(&next, in_flight);
	for (unsigned int i = 0; i < SLOTS; i++) {
		const struct slot *old = &model->slot[i], *new = &next.slot[i];
		struct choice want = { .old = old };

		if (new->step != old->step) {
			want.new = new;
			want.torn = tears && old->step && new->step;
		}
		objects += contents->slot[i].object;
		report->objects += !!old->step;
		report->bytes += old->words * WORD;
		if (!fits(&contents->slot[i], &want, model->seed, i))
			differs(report, &contents->slot[i], &want, model->seed, i);
	}
	stray = contents->stray;
	if (stray)
		report_add(report, "extra", 0, 0, "%" PRIu64 " objects are in no slot, %" PRIu64 " are in one", stray,
			   objects);
}
