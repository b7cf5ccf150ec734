/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Repeatable random numbers, and the bytes that steps write.
 *
 * Both are splitmix64 (G. Steele, D. Lea, C. Flood: Fast splittable
 * pseudorandom number generators, OOPSLA 2014) under a key derived from the seed
 * and a number, so any step's draws and any byte can be had without the ones before.
 */
#ifndef MEMTEST_CONTENT_H
#define MEMTEST_CONTENT_H

#include <stddef.h>
#include <stdint.h>

struct rng {
	uint64_t state;
};

/* The stream of draws number @number under @seed. */
struct rng rng_start(uint64_t seed, uint64_t number);

/* Uniform in 0 .. @bound - 1; @bound is 1 .. 2^32. */
uint64_t rng_below(struct rng *rng, uint64_t bound);

/*
 * What step @step writes at file offsets @offset .. @offset + @length - 1. A
 * step writes one file, so a byte depends on the file and the time as well as
 * on its place: stale and misplaced data differ from the right data.
 */
void content_fill(uint64_t seed, uint64_t step, uint64_t offset, uint8_t *buffer, size_t length);

#endif
