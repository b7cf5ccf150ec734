/* SPDX-License-Identifier: Apache-2.0 */
/* The report of a recovery, one JSON object. */
#ifndef REPORT_H
#define REPORT_H

#include <stdio.h>

#include "registry.h"
#include "restore.h"

struct report {
	enum registry_verdict verdict;
	const struct registry *registry;
	struct metadata_counts metadata;
	struct data_counts data;
	int e2fsck_status;	/* -1: not run */
	int mount_error;	/* errno, 0: mounted, -1: not tried */
	double seconds_metadata, seconds_e2fsck, seconds_data;
};

void report_print(FILE *out, const struct report *report);

#endif
