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
	[DIFFERENCE_METADATA] = "metadata", [DIFFERENCE_UNREADABLE] = "unreadable",
};

const char *const state_names[STATES] = {
	[STATE_NEWEST] = "newest", [STATE_OLDER] = "older",	  [STATE_MIXED] = "mixed",
	[STATE_ZEROED] = "zeroed", [STATE_TORN] = "torn",	  [STATE_STALE] = "stale",
	[STATE_MISPLACED] = "misplaced", [STATE_UNSYNCED] = "unsynced", [STATE_DAMAGED] = "damaged",
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
			(struct difference){ report->at, kind, copy(path), offset, length, copy(detail) };
	}
	report->count++;
	if (report->at)
		report->at->differences++;
}

static void describe(const struct step *step, char *text, size_t size)
{
	unsigned long long before = step->node ? step->node->file.size : 0, after = step->offset + step->length;
	char to[PATH_SIZE];

	switch (step->kind) {
	case STEP_CREATE:
	case STEP_MKDIR:
		snprintf(text, size, "nothing, or an empty %s", step->kind == STEP_MKDIR ? "dir" : "file");
		break;
	case STEP_UNLINK:
		snprintf(text, size, "nothing, or a file of size %llu", before);
		break;
	case STEP_RMDIR:
		snprintf(text, size, "nothing, or an empty dir");
		break;
	case STEP_RENAME:
		step_new_path(step, to);
		snprintf(text, size, "the %s here, at %s, or at both", step->node->type == NODE_DIR ? "dir" : "file", to);
		break;
	case STEP_TRUNCATE:
		snprintf(text, size, "a file of size %llu or %llu", before, after);
		break;
	case STEP_READ:
		snprintf(text, size, "a file of size %llu", before);
		break;
	default:
		snprintf(text, size, "a file of size %llu to %llu, each byte old or new", before,
			 after > before ? after : before);
	}
}

void report_failures(struct report *report, const struct model *model)
{
	report->frozen = grow(NULL, model->failures, sizeof(*report->frozen));
	report->frozen_count = model->failures;
	for (size_t i = 0; i < model->failures; i++) {
		struct frozen *frozen = &report->frozen[i];

		*frozen = (struct frozen){ .failure = &model->failure[i] };
		step_path(&frozen->failure->step, frozen->path);
		describe(&frozen->failure->step, frozen->expected, sizeof(frozen->expected));
	}
}

static const char *found(const struct frozen *frozen)
{
	return frozen->differences ? "differs" : frozen->reached ? "equal" : "not reached";
}

static uint64_t kept(const struct report *report)
{
	return report->lost ? report->lost - 1 : report->done;
}

/* How many steps there are from the first one on that is lost, and in which states files are where some may be. */
static void print_lost(const struct report *report)
{
	printf(", \"oldest\": %" PRIu64, report->oldest);
	/* Of what is damaged nothing tells how old it is. */
	if (report->count)
		printf(", \"kept\": null, \"steps_lost\": null");
	else
		printf(", \"kept\": %" PRIu64 ", \"steps_lost\": %" PRIu64, kept(report), report->done - kept(report));
	if (!report->may_lose)
		return;
	printf(", \"states\": {\"renamed\": %" PRIu64, report->renamed);
	for (size_t i = STATE_OLDER; i < STATES; i++)
		printf(", \"%s\": %" PRIu64, state_names[i], report->states[i]);
	putchar('}');
}

static void print_json(const struct report *report)
{
	printf("{\"done\": %" PRIu64 ", \"intent\": %" PRIu64 ", \"files\": %" PRIu64 ", \"dirs\": %" PRIu64
	       ", \"bytes\": %" PRIu64 ", \"files_expected\": %" PRIu64 ", \"bytes_expected\": %" PRIu64
	       ", \"files_lost\": %" PRIu64 ", \"bytes_lost\": %" PRIu64 ", \"difference_count\": %" PRIu64
	       ", \"differences\": [", report->done, report->intent, report->files, report->dirs, report->bytes,
	       report->files_expected, report->bytes_expected, report->files_lost, report->bytes_lost,
	       report->count);
	for (size_t i = 0; i < listed(report); i++) {
		const struct difference *difference = &report->listed[i];

		printf("%s\n{\"path\": ", i ? "," : "");
		json_string(stdout, difference->path);
		printf(", \"kind\": \"%s\", \"offset\": %" PRIu64 ", \"length\": %" PRIu64 ", \"detail\": ",
		       kinds[difference->kind], difference->offset, difference->length);
		json_string(stdout, difference->detail);
		if (difference->frozen)
			printf(", \"frozen_at\": %" PRIu64, difference->frozen->failure->step.number);
		putchar('}');
	}
	printf("], \"truncated\": %s, \"frozen\": [", report->count > REPORT_LISTED ? "true" : "false");
	for (size_t i = 0; i < report->frozen_count; i++) {
		const struct frozen *frozen = &report->frozen[i];

		printf("%s\n{\"step\": %" PRIu64 ", \"operation\": \"%s\", \"how\": \"%s\", \"path\": ", i ? "," : "",
		       frozen->failure->step.number, step_names[frozen->failure->step.kind], frozen->failure->how);
		json_string(stdout, frozen->path);
		printf(", \"expected\": ");
		json_string(stdout, frozen->expected);
		printf(", \"found\": \"%s\"}", found(frozen));
	}
	putchar(']');
	if (report->oldest != OLDEST_NONE)
		print_lost(report);
	printf("}\n");
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
	for (size_t i = 0; i < report->frozen_count; i++) {
		const struct frozen *frozen = &report->frozen[i];

		printf("frozen %s at step %" PRIu64 " (%s: %s), expected %s: %s\n", frozen->path,
		       frozen->failure->step.number, step_names[frozen->failure->step.kind], frozen->failure->how,
		       frozen->expected, found(frozen));
	}
	printf("%s after step %" PRIu64 ": %" PRIu64 " differences (%zu shown) in %" PRIu64 " files, %" PRIu64
	       " directories, %" PRIu64 " bytes; lost %" PRIu64 " of %" PRIu64 " files, %" PRIu64 " of %" PRIu64
	       " bytes\n", report->count ? "differs" : "equal", kept(report), report->count, listed(report),
	       report->files, report->dirs, report->bytes, report->files_lost, report->files_expected,
	       report->bytes_lost, report->bytes_expected);
}

void report_print(const struct report *report, bool json)
{
	if (json)
		print_json(report);
	else
		print_text(report);
}

void report_forget(struct report *report)
{
	for (size_t i = 0; i < listed(report); i++) {
		free(report->listed[i].path);
		free(report->listed[i].detail);
	}
	report->count = 0;
}

void report_free(struct report *report)
{
	report_forget(report);
	free(report->frozen);
}
