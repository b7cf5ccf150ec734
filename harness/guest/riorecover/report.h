/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a recovery, one JSON object. */
#ifndef REPORT_H
#define REPORT_H

#include <stdio.h>

#include "cache.h"
#include "restore.h"
#include "save.h"
#include "step.h"

struct report {
	const struct cache *cache;
	bool from_save;		/* registry and pages came from a save, because memory lost them */
	bool saving;		/* there is a place for saves */
	struct save_result saved;
	uint64_t refused;	/* pages of the save that was used whose checksums fail */
	struct metadata_counts metadata;
	struct data_counts data;
	const char *type;	/* of the file system */
	struct first_mount first_mount;	/* of one that is not ext4 */
	int e2fsck_status;	/* of the type's check, -1: not run */
	int mount_error;	/* errno, 0: mounted, -1: not tried */
	unsigned int unrecovered;	/* other file systems that the registry still lists */
	bool complete;		/* nothing that could be recovered is in memory only */
	double seconds_save, seconds_metadata, seconds_e2fsck, seconds_data;
};

void report_print(FILE *out, const struct report *report);

#endif
