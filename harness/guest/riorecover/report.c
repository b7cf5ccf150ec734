/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <inttypes.h>

static const char *const verdicts[] = {
	[REGISTRY_VALID] = "recovered",
	[REGISTRY_NONE] = "cold",
	[REGISTRY_DAMAGED] = "damaged",
};

static void print_entries(FILE *out, const struct registry_counts *c)
{
	fprintf(out, " \"entries\": {\"pairs\": %" PRIu64 ", \"free\": %" PRIu64
		", \"clean\": %" PRIu64 ", \"dirty_data\": %" PRIu64
		", \"dirty_metadata\": %" PRIu64 ", \"shadowed\": %" PRIu64
		", \"pending\": %" PRIu64
		", \"rejected\": %" PRIu64 ", \"senseless\": %" PRIu64
		", \"fallback\": %" PRIu64
		", \"foreign\": %" PRIu64 ", \"unreadable\": %" PRIu64 "},\n",
		c->pairs, c->free, c->clean, c->dirty_data, c->dirty_metadata,
		c->shadowed, c->pending, c->rejected, c->senseless,
		c->fallback, c->foreign, c->unreadable);
}

static const char *json(bool value)
{
	return value ? "true" : "false";
}

static void print_checksums(FILE *out, const struct checksum_counts *c)
{
	fprintf(out, " \"checksums\": {\"intact\": %" PRIu64 ", \"corrupt\": %" PRIu64
		", \"changing\": %" PRIu64 ", \"mismatches\": [",
		c->intact, c->corrupt, c->changing);
	for (uint64_t i = 0; i < c->corrupt && i < MAX_MISMATCHES; i++) {
		const struct mismatch *m = &c->mismatches[i];

		fprintf(out, "%s\n  {\"ino\": %" PRIu32 ", \"index\": %" PRIu64
			", \"dirty\": %s, \"metadata\": %s}", i ? "," : "",
			m->ino, m->index, json(m->dirty), json(m->metadata));
	}
	fprintf(out, "]},\n");
}

static void print_saved(FILE *out, const struct report *r)
{
	if (!r->saving) {
		fprintf(out, " \"saved\": null,\n");
		return;
	}
	/* Our own strings and strerror()'s need no escapes. */
	fprintf(out, " \"saved\": {\"pages\": %" PRIu64 ", \"bytes\": %" PRIu64
		", \"refused\": %" PRIu64 ", \"error\": ",
		r->saved.pages, r->saved.bytes, r->refused);
	fprintf(out, *r->saved.error ? "\"%s\"},\n" : "null},\n", r->saved.error);
}

void report_print(FILE *out, const struct report *r)
{
	fprintf(out, "{\"registry\": \"%s\", \"source\": \"%s\",\n", verdicts[r->verdict],
		r->from_save ? "save" : "memory");
	print_saved(out, r);
	print_entries(out, &r->registry->counts);
	print_checksums(out, &r->registry->checksums);
	fprintf(out, " \"metadata\": {\"written\": %" PRIu64 ", \"failed\": %" PRIu64 "},\n",
		r->metadata.written, r->metadata.failed);
	fprintf(out, " \"data\": {\"pages\": %" PRIu64 ", \"bytes\": %" PRIu64
		", \"files\": %" PRIu64 ", \"lost_inodes\": %" PRIu64
		", \"beyond_size\": %" PRIu64 ", \"failed\": %" PRIu64 "},\n",
		r->data.pages, r->data.bytes, r->data.files,
		r->data.lost_inodes, r->data.beyond_size, r->data.failed);
	fprintf(out, " \"e2fsck_status\": %d, \"mount_error\": %d,\n",
		r->e2fsck_status, r->mount_error);
	fprintf(out, " \"seconds\": {\"save\": %.3f, \"metadata\": %.3f, \"e2fsck\": %.3f"
		", \"data\": %.3f}}\n", r->seconds_save, r->seconds_metadata, r->seconds_e2fsck, r->seconds_data);
}
