/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <endian.h>
#include <inttypes.h>

static const char *const verdicts[] = {
	[REGISTRY_VALID] = "recovered",
	[REGISTRY_NONE] = "cold",
	[REGISTRY_DAMAGED] = "damaged",
};

static const char *const matches[] = {
	[MATCH_NONE] = "null",
	[MATCH_UUID] = "\"uuid\"",
	[MATCH_ONLY] = "\"only\"",
};

static void print_entries(FILE *out, const struct entry_counts *c)
{
	fprintf(out, " \"entries\": {\"entries\": %" PRIu64 ", \"free\": %" PRIu64
		", \"clean\": %" PRIu64 ", \"dirty_data\": %" PRIu64
		", \"dirty_metadata\": %" PRIu64 ", \"rejected\": %" PRIu64
		", \"inconsistent\": %" PRIu64 ", \"foreign\": %" PRIu64
		", \"unreadable\": %" PRIu64 ", \"duplicates\": %" PRIu64 "},\n",
		c->entries, c->free, c->clean, c->dirty_data, c->dirty_metadata,
		c->rejected, c->inconsistent, c->foreign, c->unreadable, c->duplicates);
}

static void print_log(FILE *out, const struct log_counts *c)
{
	fprintf(out, " \"log\": {\"operations\": %" PRIu64 ", \"undone\": %" PRIu64
		", \"superseded\": %" PRIu64 ", \"rejected\": %" PRIu64
		", \"inconsistent\": %" PRIu64 ", \"unreadable\": %" PRIu64 "},\n",
		c->operations, c->undone, c->superseded, c->rejected, c->inconsistent,
		c->unreadable);
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

static void print_boot_id(FILE *out, const struct rio_header *header)
{
	if (header->magic)
		fprintf(out, " \"boot_id\": \"%016" PRIx64 "\",\n", le64toh(header->boot_id));
	else
		fprintf(out, " \"boot_id\": null,\n");
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

static void print_first_mount(FILE *out, const struct first_mount *r)
{
	if (!r->tried) {
		fprintf(out, " \"first_mount\": null,\n");
		return;
	}
	fprintf(out, " \"first_mount\": {\"error\": %d, \"without_log\": %s, \"repair_status\": ",
		r->error, r->bare_error < 0 ? "null" : json(!r->bare_error));
	fprintf(out, r->repair_status < 0 ? "null},\n" : "%d},\n", r->repair_status);
}

void report_print(FILE *out, const struct report *r)
{
	const struct cache *cache = r->cache;

	fprintf(out, "{\"registry\": \"%s\", \"source\": \"%s\", \"matched_by\": %s,"
		" \"header_damaged\": %u, \"unrecovered\": %u, \"complete\": %s,\n", verdicts[cache->verdict],
		r->from_save ? "save" : "memory", matches[cache->match],
		cache->registry.damaged, r->unrecovered, json(r->complete));
	print_boot_id(out, &cache->registry.header);
	print_saved(out, r);
	print_entries(out, &cache->entries.counts);
	print_log(out, &cache->log.counts);
	print_checksums(out, &cache->entries.checksums);
	fprintf(out, " \"metadata\": {\"written\": %" PRIu64 ", \"failed\": %" PRIu64 "},\n",
		r->metadata.written, r->metadata.failed);
	fprintf(out, " \"data\": {\"pages\": %" PRIu64 ", \"bytes\": %" PRIu64
		", \"files\": %" PRIu64 ", \"lost_inodes\": %" PRIu64
		", \"beyond_size\": %" PRIu64 ", \"failed\": %" PRIu64 "},\n",
		r->data.pages, r->data.bytes, r->data.files,
		r->data.lost_inodes, r->data.beyond_size, r->data.failed);
	fprintf(out, " \"file_system\": \"%s\",\n", r->type);
	print_first_mount(out, &r->first_mount);
	fprintf(out, " \"e2fsck_status\": %d, \"mount_error\": %d,\n",
		r->e2fsck_status, r->mount_error);
	fprintf(out, " \"seconds\": {\"save\": %.3f, \"metadata\": %.3f, \"e2fsck\": %.3f"
		", \"data\": %.3f}}\n", r->seconds_save, r->seconds_metadata, r->seconds_e2fsck, r->seconds_data);
}
