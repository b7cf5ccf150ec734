// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "act.h"
#include "commands.h"
#include "util.h"

static volatile sig_atomic_t told_to_stop;

static void stop(int signal)
{
	(void)signal;
	told_to_stop = 1;
}

struct process {
	struct actor actor;
	struct progress progress;
	uint64_t done;			/* the last step that is over */
	uint64_t broken;		/* the last round in which a step failed; 0: none */
	unsigned int failures;
	const char *end;		/* why it cannot go on; NULL: it can */
};

/* The round ends where it is; nothing of it, nor of what it would have removed, is touched again. */
static void fail(struct process *process, const struct step *step)
{
	const struct shape *shape = process->actor.shape;
	char text[192], path[PATH_SIZE];

	thing_path(&shape->thing[step->thing], process->actor.origin.round, path);
	snprintf(text, sizeof(text), "%s %s p%u/%s %s", process->actor.how, step_names[step->kind],
		 (unsigned int)process->actor.origin.process, path, process->actor.detail);
	progress_add(&process->progress, RECORD_ERROR, process->done + 1, text);
	progress_send(&process->progress);
	process->broken = round_of(shape, process->done + 1);
	if (!strcmp(process->actor.how, "EROFS"))
		process->end = "read-only";
	else if (++process->failures == FAILURES_MAX)
		process->end = "failures";
}

/* The step after the last one; those that have nothing to do are left out. */
static uint64_t next_step(const struct process *process)
{
	const struct shape *shape = process->actor.shape;
	uint64_t round, number = process->done + 1;

	if (process->broken && number > 1 && round_of(shape, number - 1) == process->broken)
		number = process->broken * shape->steps + 1;
	round = round_of(shape, number);
	/* There is nothing to remove, or what is there is left as it is. */
	if (step_of(shape, number)->kind == STEP_REMOVE && (round == 1 || round - 1 == process->broken))
		number = round * shape->steps + 1;
	return number;
}

static void do_step(struct process *process, uint64_t number)
{
	const struct step *step = step_of(process->actor.shape, number);

	process->done = number - 1;
	process->actor.origin.round = round_touched(process->actor.shape, number);
	/* Goes out together with the D record of the step before. */
	progress_add(&process->progress, RECORD_INTENT, number, NULL);
	progress_send(&process->progress);
	if (!act(&process->actor, step))
		fail(process, step);
	process->done = number;
	progress_add(&process->progress, RECORD_DONE, number, NULL);
}

static int work(const struct options *options, const struct shape *shape, unsigned int number)
{
	struct process process = { .actor = { .fsync = options->fsync, .shape = shape } };
	char path[16];
	int root = open(options->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	snprintf(path, sizeof(path), "p%u", number);
	process.actor.root = root < 0 ? -1 : openat(root, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (process.actor.root < 0)
		die(EXIT_ENVIRONMENT, "cannot open %s/%s: %s; make it with andrew prepare", options->dir, path,
		    strerror(errno));
	process.actor.origin.seed = options->seed;
	process.actor.origin.process = number;
	progress_open(&process.progress, options->progress, options->seed, options->stream + number);
	progress_add(&process.progress, RECORD_START, 0, NULL);
	while (!told_to_stop && !process.end) {
		uint64_t next = next_step(&process);

		if (round_of(shape, next) > options->rounds)
			break;
		do_step(&process, next);
	}
	progress_add(&process.progress, RECORD_FINISH, process.done, process.end);
	progress_send(&process.progress);
	return process.broken ? EXIT_FAILURES : EXIT_EQUAL;
}

int command_run(const struct options *options)
{
	struct shape shape;
	int worst = EXIT_EQUAL, status;
	pid_t ended;

	/* What it stands for comes as an error of write(2), too. */
	signal(SIGXFSZ, SIG_IGN);
	/* After the step: then there is none in flight. */
	signal(SIGTERM, stop);
	shape_init(&shape, options->files);
	for (unsigned int i = 0; i < options->processes; i++) {
		pid_t child = fork();

		if (child < 0)
			die(EXIT_ENVIRONMENT, "cannot fork: %s", strerror(errno));
		if (!child)
			_exit(work(options, &shape, i));
	}
	while ((ended = wait(&status)) > 0 || errno == EINTR) {
		int result = WIFEXITED(status) ? WEXITSTATUS(status) : EXIT_ENVIRONMENT;

		if (ended > 0 && result && worst != EXIT_ENVIRONMENT)
			worst = result;
	}
	shape_free(&shape);
	return worst;
}

int command_prepare(const struct options *options)
{
	int root;

	if (mkdir(options->dir, 0755) && errno != EEXIST)
		die(EXIT_ENVIRONMENT, "cannot make %s: %s", options->dir, strerror(errno));
	root = open(options->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (unsigned int i = 0; i < options->processes; i++) {
		char path[16];

		snprintf(path, sizeof(path), "p%u", i);
		if (root < 0 || mkdirat(root, path, 0755))
			die(EXIT_ENVIRONMENT, "cannot make %s/%s: %s; prepare wants an empty --dir", options->dir, path,
			    strerror(errno));
	}
	if (syncfs(root))
		die(EXIT_ENVIRONMENT, "cannot sync %s: %s", options->dir, strerror(errno));
	close(root);
	return EXIT_EQUAL;
}
