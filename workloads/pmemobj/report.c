// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>

#include "commands.h"
#include "json.h"

static uint64_t listed(const struct report *report)
{
	return report->count < REPORT_LISTED ? report->count : REPORT_LISTED;
}

void report_add(struct report *report, const char *kind, uint64_t offset, uint64_t length, const char *format, ...)
{
	va_list args;

	if (report->count < REPORT_LISTED) {
		struct difference *difference = &report->listed[report->count];

		*difference = (struct difference){ .kind = kind, .offset = offset, .length = length };
		va_start(args, format);
		vsnprintf(difference->detail, sizeof(difference->detail), format, args);
		va_end(args);
	}
	report->count++;
}

static void print_json(const struct report *report)
{
	/* For the harness an object counts as a file. */
	printf("{\"done\": %" PRIu64 ", \"intent\": %" PRIu64 ", \"files_expected\": %" PRIu64 ", \"files_lost\": %" PRIu64
	       ", \"bytes_expected\": %" PRIu64 ", \"bytes_lost\": %" PRIu64, report->done, report->intent,
	       report->objects, report->objects_lost, report->bytes, report->bytes_lost);
	if (report->count)
		printf(", \"kept\": null, \"steps_lost\": null");
	else
		printf(", \"kept\": %" PRIu64 ", \"steps_lost\": %" PRIu64, report->kept,
		       report->done > report->kept ? report->done - report->kept : 0);
	printf(", \"pmempool\": ");
	json_string(stdout, report->pmempool);
	printf(", \"difference_count\": %" PRIu64 ", \"differences\": [", report->count);
	for (uint64_t i = 0; i < listed(report); i++) {
		const struct difference *difference = &report->listed[i];

		printf("%s\n{\"path\": \"" POOL_NAME "\", \"kind\": \"%s\", \"offset\": %" PRIu64 ", \"length\": %" PRIu64
		       ", \"detail\": ", i ? "," : "", difference->kind, difference->offset, difference->length);
		json_string(stdout, difference->detail);
		putchar('}');
	}
	printf("], \"truncated\": %s}\n", report->count > REPORT_LISTED ? "true" : "false");
}

static void print_text(const struct report *report)
{
	for (uint64_t i = 0; i < listed(report); i++) {
		const struct difference *difference = &report->listed[i];

		printf("%s offset %" PRIu64 " length %" PRIu64 ": ", difference->kind, difference->offset,
		       difference->length);
		json_string(stdout, difference->detail);
		putchar('\n');
	}
	printf("%s after step %" PRIu64 ": %" PRIu64 " differences; lost %" PRIu64 " of %" PRIu64 " objects, %" PRIu64
	       " of %" PRIu64 " bytes\n", report->count ? "differs" : "equal", report->kept, report->count,
	       report->objects_lost, report->objects, report->bytes_lost, report->bytes);
}

void report_print(const struct report *report, bool json)
{
	if (json)
		print_json(report);
	else
		print_text(report);
}
