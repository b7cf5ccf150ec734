// SPDX-License-Identifier: Apache-2.0
#include "report.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>

#include "json.h"
#include "util.h"

void report_init(struct report *report)
{
	*report = (struct report){ 0 };
	report->list = open_memstream(&report->text, &report->length);
	if (!report->list)
		die(EXIT_ENVIRONMENT, "out of memory");
}

void report_free(struct report *report)
{
	fclose(report->list);
	free(report->text);
}

void report_add(struct report *report, const char *kind, const char *path, uint64_t offset, uint64_t length,
		const char *format, ...)
{
	char detail[256];
	va_list args;

	if (report->count++ >= REPORT_LISTED)
		return;
	va_start(args, format);
	vsnprintf(detail, sizeof(detail), format, args);
	va_end(args);
	fprintf(report->list, "%s\n{\"kind\": \"%s\", \"path\": ", report->count > 1 ? "," : "", kind);
	json_string(report->list, path);
	fprintf(report->list, ", \"offset\": %" PRIu64 ", \"length\": %" PRIu64 ", \"detail\": ", offset, length);
	json_string(report->list, detail);
	if (report->frozen_at)
		fprintf(report->list, ", \"frozen_at\": %" PRIu64, report->frozen_at);
	fputc('}', report->list);
}
