/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMTEST_OPTIONS_H
#define MEMTEST_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct options {
	const char *dir;
	const char *progress;
	uint64_t seed;
	uint64_t max_bytes;
	uint64_t steps;		/* UINT64_MAX: no end */
	uint64_t done;
	uint64_t intent;	/* 0: none */
	unsigned int twins;
	bool fsync;
	bool json;
};

/*
 * The options of the command argv[0], which are exactly those named in @known, a
 * string of option letters where a capital letter means that it must be
 * given. Anything else exits with EXIT_USAGE.
 */
struct options options_parse(int argc, char **argv, const char *known);

#endif
