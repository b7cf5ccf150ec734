/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MEMTEST_OPTIONS_H
#define MEMTEST_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define HOW_SIZE 24		/* of a failure's name, with its NUL */
#define OLDEST_NONE UINT64_MAX
/* More steps than these do not fail in one run: it ends. */
#define FAILURES_MAX 1000u

/* Steps that run reported as failed, by rising number. */
struct failed_list {
	size_t count;
	struct failed {
		uint64_t step;
		char how[HOW_SIZE];
	} *failed;
};

struct options {
	const char *dir;
	const char *progress;
	uint64_t seed;
	uint64_t max_bytes;
	uint64_t steps;		/* UINT64_MAX: no end */
	uint64_t done;
	uint64_t intent;	/* 0: none */
	uint64_t oldest;	/* later steps may be lost unless they were made durable; OLDEST_NONE: none may */
	uint64_t fsync_every;	/* each n-th step is made durable; 0: none is */
	const char *defer;	/* file for the paths of files whose bytes verify leaves to another; NULL: none */
	struct failed_list failed;
	unsigned int twins;
	unsigned int twin_bytes;	/* largest size of a twin */
	unsigned int xattrs;	/* largest value of an extended attribute of twins; 0: they have none */
	bool fsync;
	bool missing_fsync;	/* a bug that a check has to find: no fsync is called */
	bool json;
};

/*
 * The options of the command argv[0], which are exactly those named in @known, a
 * string of option letters where a capital letter means that it must be
 * given. Anything else exits with EXIT_USAGE.
 */
struct options options_parse(int argc, char **argv, const char *known);

#endif
