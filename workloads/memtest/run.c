// SPDX-License-Identifier: Apache-2.0
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>

#include "act.h"
#include "commands.h"
#include "progress.h"

/* Opens the test directory, whose tree must be there and empty: step 1 is the first. */
static int open_root(const char *path)
{
	int root = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	int fd = root < 0 ? -1 : openat(root, "tree", O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	DIR *tree = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;

	if (!tree)
		die(EXIT_ENVIRONMENT, "cannot open %s/tree: %s; make it with memtest prepare", path, strerror(errno));
	while ((entry = readdir(tree)))
		if (strcmp(entry->d_name, ".") && strcmp(entry->d_name, ".."))
			die(EXIT_ENVIRONMENT, "%s/tree is not empty; run begins at step 1 of a fresh memtest prepare", path);
	closedir(tree);
	return root;
}

/* Why the run cannot go on after a step that failed; NULL if it can. */
static const char *end_after(const struct actor *actor, const struct model *model)
{
	if (!strcmp(actor->how, "EROFS"))
		return "read-only";
	return model->failures == FAILURES_MAX ? "failures" : NULL;
}

static volatile sig_atomic_t told_to_stop;

static void stop(int signal)
{
	(void)signal;
	told_to_stop = 1;
}

int command_run(const struct options *options)
{
	struct model model;
	struct actor actor = { .model = &model };
	struct progress progress;
	struct step step;
	const char *end = NULL;
	enum exit_status status = EXIT_EQUAL;

	/* What these two stand for comes as an error of write(2), too. */
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	/* After the step: then there is none in flight. */
	signal(SIGTERM, stop);
	actor.root = open_root(options->dir);
	model_init(&model, options->seed, options->max_bytes, 0, 0);
	progress_open(&progress, options->progress, options->seed);
	progress_add(&progress, RECORD_START, 0, NULL);
	while (model.steps < options->steps && !told_to_stop && !end) {
		uint64_t every = options->fsync_every;

		if (!step_plan(&model, &step)) {
			end = "frozen";
			break;
		}
		/* Goes out together with the D record of the step before. */
		progress_add(&progress, RECORD_INTENT, step.number, NULL);
		progress_send(&progress);
		actor.fsync = !options->missing_fsync && (options->fsync || (every && step.number % every == 0));
		if (!act(&actor, &step)) {
			progress_add(&progress, RECORD_ERROR, step.number, actor.text);
			progress_send(&progress);
			/* Go on with the rest, as the load that may yet crash the system. */
			step_fail(&model, &step, actor.how);
			end = end_after(&actor, &model);
			if (actor.status > status)
				status = actor.status;
		} else {
			step_apply(&model, &step);
		}
		progress_add(&progress, RECORD_DONE, step.number, NULL);
	}
	progress_add(&progress, RECORD_FINISH, model.steps, end);
	progress_send(&progress);
	if (end)
		die(status, "ended after step %llu: %s; the last of %zu failures: %s", (unsigned long long)model.steps, end,
		    model.failures, actor.text);
	model_free(&model);
	return status;
}
