/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PMEMOBJ_OPTIONS_H
#define PMEMOBJ_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "api.h"

#define OLDEST_NONE UINT64_MAX

struct options {
	const char *dir;
	const char *progress;
	const struct api *api;
	enum bug bug;
	size_t size;		/* of the pool, in bytes */
	uint64_t seed;
	uint64_t steps;		/* UINT64_MAX: no end */
	uint64_t done;
	uint64_t intent;	/* the step in flight; 0: none */
	uint64_t oldest;	/* OLDEST_NONE: as done */
	bool lying;		/* the platform says that the processor's caches survive a loss of power */
	bool json;
};

/*
 * The options of a command, whose letters are in @known: an upper case letter must be given. Wrong ones exit
 * with EXIT_USAGE.
 */
struct options options_parse(int argc, char **argv, const char *known);

#endif
