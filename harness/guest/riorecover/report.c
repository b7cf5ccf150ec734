/* SPDX-License-Identifier: Apache-2.0 */
#include "report.h"

#include <inttypes.h>

static const char *const verdicts[] = {
	[REGISTRY_VALID] = "recovered",
	[REGISTRY_NONE] = "cold",
	[REGISTRY_DAMAGED] = "damaged",
};

void report_print(FILE *out, const struct report *r)
{
	const struct registry_counts *c = &r->registry->counts;

	fprintf(out, "{\"registry\": \"%s\",\n", verdicts[r->verdict]);
	fprintf(out, " \"entries\": {\"pairs\": %" PRIu64 ", \"free\": %" PRIu64
		", \"clean\": %" PRIu64 ", \"dirty_data\": %" PRIu64
		", \"dirty_metadata\": %" PRIu64 ", \"rejected\": %" PRIu64
		", \"fallback\": %" PRIu64 ", \"foreign\": %" PRIu64
		", \"unreadable\": %" PRIu64 "},\n",
		c->pairs, c->free, c->clean, c->dirty_data, c->dirty_metadata,
		c->rejected, c->fallback, c->foreign, c->unreadable);
	fprintf(out, " \"metadata\": {\"written\": %" PRIu64 ", \"failed\": %" PRIu64 "},\n",
		r->metadata.written, r->metadata.failed);
	fprintf(out, " \"data\": {\"pages\": %" PRIu64 ", \"bytes\": %" PRIu64
		", \"files\": %" PRIu64 ", \"lost_inodes\": %" PRIu64
		", \"beyond_size\": %" PRIu64 ", \"failed\": %" PRIu64 "},\n",
		r->data.pages, r->data.bytes, r->data.files,
		r->data.lost_inodes, r->data.beyond_size, r->data.failed);
	fprintf(out, " \"e2fsck_status\": %d, \"mount_error\": %d,\n",
		r->e2fsck_status, r->mount_error);
	fprintf(out, " \"seconds\": {\"metadata\": %.3f, \"e2fsck\": %.3f, \"data\": %.3f}}\n",
		r->seconds_metadata, r->seconds_e2fsck, r->seconds_data);
}
