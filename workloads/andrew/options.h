/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ANDREW_OPTIONS_H
#define ANDREW_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "progress.h"
#include "round.h"

#define HOW_SIZE 24

/* What a process is known to have done. */
struct reported {
	uint64_t done;
	uint64_t intent;
	unsigned int failures;
	struct failed {
		uint64_t step;
		char how[HOW_SIZE];
	} failed[FAILURES_MAX];
};

struct options {
	const char *dir;
	const char *progress;
	const char *scratch;
	const char *defer;	/* file for the paths of files whose bytes verify leaves to another; NULL: none */
	uint64_t seed;
	uint64_t rounds;	/* UINT64_MAX: no end */
	unsigned int files;
	unsigned int processes;
	unsigned int stream;	/* of the first process */
	bool fsync;
	bool json;
	struct reported reported[STREAMS];
};

/* The options of a command; wrong ones exit with EXIT_USAGE. */
void options_parse(struct options *options, int argc, char **argv);

#endif
