/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes between the processors and a range of physical memory. Accesses are counted as the guest makes them. Lines
 * are those that a cache of 2 MiB, direct-mapped and written back, would fetch and write back; stores past the caches
 * write each line once while they stay in it. Lines that are still in the cache at the end are not written.
 */
#ifndef TRAFFIC_H
#define TRAFFIC_H

#include <stdbool.h>
#include <stdint.h>

#define LINE_SHIFT 6
#define CACHE_LINES ((2 << 20) >> LINE_SHIFT)

struct traffic {
	uint64_t loads, stores, lines_read, lines_written;
};

static struct traffic traffic;
static uint64_t watched_start, watched_size;
/* Of each place its line's number plus 1, and whether it was stored to. */
static struct cached {
	uint64_t line : 63, dirty : 1;
} cache[CACHE_LINES];
/* The line of the last store past the caches, plus 1. */
static uint64_t combined;

static inline bool is_watched(uint64_t line)
{
	return (line << LINE_SHIFT) - watched_start < watched_size;
}

static inline void fetch(uint64_t line, bool store)
{
	struct cached *at = &cache[line % CACHE_LINES];

	if (at->line != line + 1) {
		if (at->dirty && is_watched(at->line - 1))
			traffic.lines_written++;
		if (is_watched(line))
			traffic.lines_read++;
		*at = (struct cached){.line = line + 1};
	}
	at->dirty |= store;
}

static inline void write_past(uint64_t line)
{
	struct cached *at = &cache[line % CACHE_LINES];

	if (at->line == line + 1)
		*at = (struct cached){0};
	if (combined != line + 1 && is_watched(line))
		traffic.lines_written++;
	combined = line + 1;
}

static inline void accessed(uint64_t physical, unsigned int size, bool store, bool past)
{
	uint64_t last = (physical + size - 1) >> LINE_SHIFT;

	if (physical - watched_start < watched_size) {
		traffic.loads += !store;
		traffic.stores += store;
	}
	for (uint64_t line = physical >> LINE_SHIFT; line <= last; line++) {
		if (store && past)
			write_past(line);
		else
			fetch(line, store);
	}
}

#endif
