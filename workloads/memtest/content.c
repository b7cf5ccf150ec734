// SPDX-License-Identifier: Apache-2.0
#include "content.h"

#include <endian.h>
#include <string.h>

/* splitmix64's increment: 2^64 divided by the golden ratio, made odd. */
#define GAMMA 0x9e3779b97f4a7c15u

enum domain { DOMAIN_DRAWS = 1, DOMAIN_CONTENT = 2 };

static uint64_t mix64(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static uint64_t derive(uint64_t seed, enum domain domain, uint64_t number)
{
	return mix64(mix64(seed + domain * GAMMA) ^ number);
}

struct rng rng_start(uint64_t seed, uint64_t number)
{
	return (struct rng){ derive(seed, DOMAIN_DRAWS, number) };
}

uint64_t rng_below(struct rng *rng, uint64_t bound)
{
	rng->state += GAMMA;
	return ((mix64(rng->state) >> 32) * bound) >> 32;
}

/* Eight bytes of content: those at offsets @index * 8 and following. */
static uint64_t content_word(uint64_t key, uint64_t index)
{
	return htole64(mix64(key + index * GAMMA));
}

void content_fill(uint64_t seed, uint64_t step, uint64_t offset, uint8_t *buffer, size_t length)
{
	uint64_t key = derive(seed, DOMAIN_CONTENT, step);
	uint64_t index = offset / 8;
	size_t skip = offset % 8;
	uint64_t word;

	if (skip && length) {
		size_t part = length < 8 - skip ? length : 8 - skip;

		word = content_word(key, index++);
		memcpy(buffer, (uint8_t *)&word + skip, part);
		buffer += part;
		length -= part;
	}
	for (; length >= 8; buffer += 8, length -= 8) {
		word = content_word(key, index++);
		memcpy(buffer, &word, 8);
	}
	if (length) {
		word = content_word(key, index);
		memcpy(buffer, &word, length);
	}
}
