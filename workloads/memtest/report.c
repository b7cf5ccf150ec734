// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "util.h"

static const char *const kinds[] = {
	[DIFFERENCE_MISSING] = "missing", [DIFFERENCE_EXTRA] = "extra",
	[DIFFERENCE_TYPE] = "type",	  [DIFFERENCE_SIZE] = "size",
	[DIFFERENCE_CONTENT] = "content", [DIFFERENCE_TWIN] = "twin",
	[DIFFERENCE_UNREADABLE] = "unreadable",
};

static size_t listed(const struct report *report)
{
	return report->count < REPORT_LISTED ? report->count : REPORT_LISTED;
}

static char *copy(const char *text)
{
	return strcpy(grow(NULL, strlen(text) + 1, 1), text);
}

void report_add(struct report *report, enum difference_kind kind, const char *path, uint64_t offset,
		uint64_t length, const char *format, ...)
{
	char detail[256];
	va_list args;

	if (report->count < REPORT_LISTED) {
		va_start(args, format);
		vsnprintf(detail, sizeof(detail), format, args);
		va_end(args);
		report->listed[report->count] =
			(struct difference){ kind, copy(path), offset, length, copy(detail) };
	}
	report->count++;
}

static void print_json(const struct report *report)
{
	printf("{\"done\": %" PRIu64 ", \"intent\": %" PRIu64 ", \"files\": %" PRIu64 ", \"dirs\": %" PRIu64
	       ", \"bytes\": %" PRIu64 ", \"difference_count\": %" PRIu64 ", \"differences\": [",
	       report->done, report->intent, report->files, report->dirs, report->bytes, report->count);
	for (size_t i = 0; i < listed(report); i++) {
		const struct difference *difference = &report->listed[i];

		printf("%s\n{\"path\": ", i ? "," : "");
		json_string(stdout, difference->path);
		printf(", \"kind\": \"%s\", \"offset\": %" PRIu64 ", \"length\": %" PRIu64 ", \"detail\": ",
		       kinds[difference->kind], difference->offset, difference->length);
		json_string(stdout, difference->detail);
		putchar('}');
	}
	printf("], \"truncated\": %s}\n", report->count > REPORT_LISTED ? "true" : "false");
}

static void print_text(const struct report *report)
{
	for (size_t i = 0; i < listed(report); i++) {
		const struct difference *difference = &report->listed[i];

		printf("%s ", kinds[difference->kind]);
		json_string(stdout, difference->path);
		printf(" offset %" PRIu64 " length %" PRIu64 ": ", difference->offset, difference->length);
		json_string(stdout, difference->detail);
		putchar('\n');
	}
	printf("%s after step %" PRIu64 ": %" PRIu64 " differences (%zu shown) in %" PRIu64 " files, %" PRIu64
	       " directories, %" PRIu64 " bytes\n", report->count ? "differs" : "equal", report->done,
	       report->count, listed(report), report->files, report->dirs, report->bytes);
}

void report_print(const struct report *report, bool json)
{
	if (json)
		print_json(report);
	else
		print_text(report);
}

void report_free(struct report *report)
{
	for (size_t i = 0; i < listed(report); i++) {
		free(report->listed[i].path);
		free(report->listed[i].detail);
	}
}
