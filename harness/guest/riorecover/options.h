/* SPDX-License-Identifier: Apache-2.0 */
/* The command line. */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

struct options {
	const char *memory, *device, *save, *mount_point, *e2fsck, *report, *fsck_log;
	const char *type;	/* of the file system */
	const char *check, *repair;	/* commands for one that is not ext4, or NULL */
	const char *without_log;	/* option of its mount, or NULL */
	uint64_t start, size, limit;
	uint64_t most_rejected;	/* entries and log pages, or the recovery is incomplete */
	bool writing;		/* recover, not inspect */
	bool has_registry;
	bool listed;		/* only what the registry lists by its UUID */
	bool give_up;		/* what cannot be restored */
};

/* 0, or the exit status for wrong use with a line on stderr; --help ends the program. */
int options_parse(int argc, char **argv, struct options *options);

#endif
