// SPDX-License-Identifier: Apache-2.0
#include "moment.h"

#include "util.h"

struct moment newest_moment(const struct options *options)
{
	const struct failed_list *failed = &options->failed;
	/* A step may have failed and not have been reported as over. */
	bool over = failed->count && failed->failed[failed->count - 1].step == options->intent;

	if (options->intent && options->intent != options->done + 1)
		die(EXIT_USAGE, "--intent must be 0 or one more than --done");
	return (struct moment){ over ? options->intent : options->done, options->intent && !over, *failed };
}

void moment_model(struct model *model, const struct moment *moment, const struct options *options)
{
	model_init(model, options->seed, options->max_bytes, options->twins, options->twin_bytes);
	steps_replay(model, moment->steps, &moment->failed, NULL, NULL);
}
