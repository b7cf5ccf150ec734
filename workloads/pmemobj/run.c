// SPDX-License-Identifier: Apache-2.0
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>

#include "commands.h"
#include "compare.h"
#include "progress.h"
#include "util.h"

static volatile sig_atomic_t told_to_stop;

static void stop(int signal)
{
	(void)signal;
	told_to_stop = 1;
}

/* Whether what the step would change is as the model has it. */
static bool sound(const struct api *api, const struct model *model, const struct operation operations[OPERATIONS])
{
	for (unsigned int i = 0; i < OPERATIONS; i++) {
		unsigned int slot = operations[i].slot;
		struct held held = api->held(slot);

		if (!slot_equal(&held, &model->slot[slot], model->seed, slot)) {
			snprintf(api_error.name, sizeof(api_error.name), "mismatch");
			snprintf(api_error.text, sizeof(api_error.text), "slot %u at offset %" PRIu64, slot, held.offset);
			return false;
		}
	}
	return true;
}

/* Does the next step, and reports it: an error ends the run, because who knows what the pool is then. */
static bool do_step(const struct options *options, struct model *model, struct progress *progress)
{
	struct operation operations[OPERATIONS];
	char text[256];

	model_plan(model, operations);
	/* Goes out together with the D record of the step before. */
	progress_add(progress, RECORD_INTENT, model->steps + 1, NULL);
	progress_send(progress);
	options->api->flush_late();
	if (!sound(options->api, model, operations) || !options->api->apply(model, operations, options->bug)) {
		snprintf(text, sizeof(text), "%s step " POOL_NAME " %s", api_error.name, api_error.text);
		progress_add(progress, RECORD_ERROR, model->steps + 1, text);
		return false;
	}
	model_apply(model, operations);
	progress_add(progress, RECORD_DONE, model->steps, NULL);
	return true;
}

int command_run(const struct options *options)
{
	struct model model = { .seed = options->seed };
	struct progress progress;
	bool well = true;

	/* After the step: then there is none in flight. */
	signal(SIGTERM, stop);
	signal(SIGPIPE, SIG_IGN);
	if (!options->api->open(pool_path(options), options->size))
		die(EXIT_ENVIRONMENT, "cannot open %s: %s; make it with pmemobj prepare", pool_path(options),
		    api_error.text);
	progress_open(&progress, options->progress, options->seed);
	progress_add(&progress, RECORD_START, 0, NULL);
	while (well && !told_to_stop && model.steps < options->steps)
		well = do_step(options, &model, &progress);
	progress_add(&progress, RECORD_FINISH, model.steps, well ? NULL : "failed");
	progress_send(&progress);
	if (!well)
		die(EXIT_FAILED, "step %" PRIu64 ": %s: %s", model.steps + 1, api_error.name, api_error.text);
	options->api->close();
	return EXIT_EQUAL;
}
