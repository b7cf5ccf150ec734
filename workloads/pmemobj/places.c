// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <stdio.h>

#include "commands.h"
#include "util.h"

/* A changed bit of PMDK's own structures may be none that PMDK uses; of an object every bit counts. */
int command_places(const struct options *options)
{
	if (!options->api->open(pool_path(options), options->size))
		die(EXIT_ENVIRONMENT, "cannot open %s: %s", pool_path(options), api_error.text);
	for (unsigned int slot = 0; slot < SLOTS; slot++) {
		struct held held = options->api->held(slot);

		if (held.object && held.words)
			printf("%" PRIu64 " %" PRIu64 " " POOL_NAME "\n", held.offset, held.words * sizeof(*held.word));
	}
	options->api->close();
	return EXIT_EQUAL;
}
