// SPDX-License-Identifier: Apache-2.0
#include "model.h"

const char *const kind_names[] = { [KIND_ALLOC] = "alloc", [KIND_FREE] = "free", [KIND_UPDATE] = "update" };

/* splitmix64: Steele et al., Fast splittable pseudorandom number generators, OOPSLA 2014. */
static uint64_t mix(uint64_t value)
{
	value += 0x9e3779b97f4a7c15u;
	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9u;
	value = (value ^ value >> 27) * 0x94d049bb133111ebu;
	return value ^ value >> 31;
}

void model_plan(const struct model *model, struct operation operations[OPERATIONS])
{
	for (unsigned int i = 0; i < OPERATIONS; i++) {
		uint64_t drawn = mix(mix(model->seed) + (model->steps + 1) * OPERATIONS + i);
		struct operation *operation = &operations[i];
		const struct slot *slot;

		operation->slot = i * SLOTS_EACH + (unsigned int)(drawn % SLOTS_EACH);
		slot = &model->slot[operation->slot];
		drawn /= SLOTS_EACH;
		operation->kind = !slot->step ? KIND_ALLOC : drawn % 4 ? KIND_UPDATE : KIND_FREE;
		operation->words = slot->step ? slot->words : 1 + drawn / 4 % WORDS_MOST;
	}
}

void model_apply(struct model *model, const struct operation operations[OPERATIONS])
{
	model->steps++;
	for (unsigned int i = 0; i < OPERATIONS; i++) {
		const struct operation *operation = &operations[i];
		struct slot new = { model->steps, operation->words };

		model->slot[operation->slot] = operation->kind == KIND_FREE ? (struct slot){ 0 } : new;
	}
}

void model_replay(struct model *model, uint64_t seed, uint64_t steps)
{
	struct operation operations[OPERATIONS];

	*model = (struct model){ .seed = seed };
	while (model->steps < steps) {
		model_plan(model, operations);
		model_apply(model, operations);
	}
}

uint64_t model_word(uint64_t seed, uint64_t step, unsigned int slot, uint64_t index)
{
	return mix(mix(mix(seed) + step * SLOTS + slot) + index);
}

void model_fill(uint64_t *word, uint64_t words, uint64_t seed, uint64_t step, unsigned int slot)
{
	for (uint64_t i = 0; i < words; i++)
		word[i] = model_word(seed, step, slot, i);
}
