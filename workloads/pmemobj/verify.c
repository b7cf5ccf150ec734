// SPDX-License-Identifier: Apache-2.0
/*
 * The pool may be damaged in any way, and PMDK trusts it. So whatever looks at it is a process of its own with a
 * bound on its time: if it dies of the pool, that is a difference.
 */
#include <errno.h>
#include <inttypes.h>
#include <libpmempool.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "commands.h"
#include "compare.h"
#include "util.h"

/* Many times what a sound pool of any size takes, emulation included. */
#define CPU_SECONDS 60

static uint64_t newest(const struct options *options)
{
	return options->intent ? options->intent : options->done;
}

/* Replays the model to the step that the pool claims, if that may be; otherwise to the one reported. */
static void replay(struct report *report, const struct options *options, const struct contents *contents,
		   struct model *model)
{
	uint64_t oldest = options->oldest == OLDEST_NONE ? options->done : options->oldest;
	uint64_t steps = contents->steps;

	if (steps < oldest || steps > newest(options)) {
		report_add(report, "content", contents->steps_offset, sizeof(steps),
			   "the counter is %" PRIu64 ", want %" PRIu64 " to %" PRIu64, steps, oldest, newest(options));
		steps = options->done;
	}
	report->kept = steps;
	model_replay(model, options->seed, steps);
}

static void look(struct report *report, const struct options *options)
{
	struct operation next[OPERATIONS];
	struct contents contents;
	struct model model;
	bool in_flight;

	report->doing = "it was opened";
	if (!options->api->open(pool_path(options), options->size)) {
		if (!strcmp(api_error.name, "ENOMEM"))
			die(EXIT_ENVIRONMENT, "out of memory: %s", api_error.text);
		report_add(report, "unreadable", 0, 0, "cannot be opened: %s: %s", api_error.name, api_error.text);
		return;
	}
	report->doing = "it was read";
	options->api->read(&contents);
	replay(report, options, &contents, &model);
	model_plan(&model, next);
	/* The step after the one that the counter has may have begun, if it was announced or may be lost. */
	in_flight = !options->api->transactions && model.steps < newest(options);
	compare(report, &contents, &model, in_flight ? next : NULL, options->api->tears_updates);
	report->compared = true;
	report->doing = "it was closed";
	options->api->close();
}

/* Asks libpmempool, which changes nothing without PMEMPOOL_CHECK_REPAIR. */
static void ask_pmempool(struct report *report, const struct options *options)
{
	struct pmempool_check_args args = {
		.path = pool_path(options), .pool_type = PMEMPOOL_POOL_TYPE_OBJ,
		.flags = PMEMPOOL_CHECK_FORMAT_STR | PMEMPOOL_CHECK_VERBOSE,
	};
	struct pmempool_check_status *status;
	enum pmempool_check_result result;
	PMEMpoolcheck *check;
	char said[sizeof(report->pmempool)] = "";

	report->doing = "pmempool checked it";
	check = pmempool_check_init(&args, sizeof(args));
	if (!check && errno == ENOMEM)
		die(EXIT_ENVIRONMENT, "out of memory: %s", pmempool_errormsg());
	while (check && (status = pmempool_check(check)))
		if (status->type == PMEMPOOL_CHECK_MSG_TYPE_ERROR && !*said)
			snprintf(said, sizeof(said), "%s", status->str.msg);
	if (!check)
		snprintf(said, sizeof(said), "%s", pmempool_errormsg());
	result = check ? pmempool_check_end(check) : PMEMPOOL_CHECK_RESULT_ERROR;
	if (result == PMEMPOOL_CHECK_RESULT_CONSISTENT) {
		snprintf(report->pmempool, sizeof(report->pmempool), "consistent");
		return;
	}
	snprintf(report->pmempool, sizeof(report->pmempool), "%s", *said ? said : "not consistent");
	report_add(report, "pmempool", 0, 0, "%s", report->pmempool);
}

/* Whether a signal tells that the pool is damaged, and not that there is no memory or that somebody ended it. */
static bool is_of_damage(int signal)
{
	static const int all[] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL, SIGTRAP, SIGXCPU };

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
		if (signal == all[i])
			return true;
	return false;
}

/* Does the work in a process of its own. */
static void apart(struct report *report, const struct options *options,
		  void (*work)(struct report *report, const struct options *options))
{
	int status;
	pid_t child;

	report->doing = "nothing was done";
	child = fork();
	if (child < 0)
		die(EXIT_ENVIRONMENT, "cannot fork: %s", strerror(errno));
	if (!child) {
		setrlimit(RLIMIT_CPU, &(struct rlimit){ CPU_SECONDS, CPU_SECONDS + 1 });
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
		work(report, options);
		_exit(EXIT_EQUAL);
	}
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			die(EXIT_ENVIRONMENT, "cannot wait: %s", strerror(errno));
	if (WIFSIGNALED(status) && is_of_damage(WTERMSIG(status)))
		report_add(report, "unreadable", 0, 0, "%s when %s", strsignal(WTERMSIG(status)), report->doing);
	else if (status)
		die(EXIT_ENVIRONMENT, "ended with wait status %#x when %s", (unsigned int)status, report->doing);
}

/* Whether there is a pool to look at; otherwise why not is a difference. */
static bool is_there(struct report *report, const struct options *options)
{
	struct stat stat;

	if (lstat(pool_path(options), &stat)) {
		if (errno == ENOENT || errno == ENOTDIR)
			report_add(report, "missing", 0, 0, "there is no pool");
		else
			report_add(report, "unreadable", 0, 0, "lstat: %s", strerror(errno));
	} else if (!S_ISREG(stat.st_mode)) {
		report_add(report, "type", 0, 0, "no regular file");
	} else if ((uint64_t)stat.st_size != options->size) {
		report_add(report, "size", 0, 0, "%" PRIu64 " bytes, want %zu", (uint64_t)stat.st_size, options->size);
	} else {
		return true;
	}
	return false;
}

/* All of the model is lost. */
static void lose_all(struct report *report, const struct options *options)
{
	struct model model;

	model_replay(&model, options->seed, options->done);
	report->objects = report->bytes = 0;
	for (unsigned int i = 0; i < SLOTS; i++) {
		report->objects += !!model.slot[i].step;
		report->bytes += model.slot[i].words * sizeof(uint64_t);
	}
	report->objects_lost = report->objects;
	report->bytes_lost = report->bytes;
}

int command_verify(const struct options *options)
{
	struct report *report = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (report == MAP_FAILED)
		die(EXIT_ENVIRONMENT, "out of memory");
	report->done = report->kept = options->done;
	report->intent = options->intent;
	if (is_there(report, options)) {
		apart(report, options, look);
		if (options->api->pmempool)
			apart(report, options, ask_pmempool);
	}
	if (!report->compared)
		lose_all(report, options);
	report_print(report, options->json);
	return report->count ? EXIT_DIFFERS : EXIT_EQUAL;
}
