// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands.h"
#include "util.h"

static const struct {
	const char *name;
	int (*function)(const struct options *options);
	const char *known;	/* as of options_parse() */
} commands[] = {
	{ "prepare", command_prepare, "Dma" },
	{ "run", command_run, "DSmapnbl" },
	{ "places", command_places, "Dma" },
	{ "verify", command_verify, "DSmaOikj" },
};

static const char help[] =
"pmemobj: steps on a pool of persistent memory, and an oracle for it\n"
"\n"
"  pmemobj prepare --dir D [--api A] [--pool-mib N]\n"
"      make D with an empty pool\n"
"  pmemobj run --dir D --seed S [--api A] [--pool-mib N] [--steps N] [--progress PATH] [--bug B]\n"
"      [--platform P]\n"
"      do steps, for ever or N of them\n"
"  pmemobj places --dir D [--api A] [--pool-mib N]\n"
"      say where the objects are: offset, bytes and file of each\n"
"  pmemobj verify --dir D --seed S --done N [--intent N+1] [--oldest K] [--api A] [--pool-mib N] [--json]\n"
"      compare the pool with what must be in it after those steps\n"
"\n"
"Defaults: --api tx (or atomic, libpmem, btree, hashmap_tx), --pool-mib 16 (8 to 1024), --progress /dev/null, --bug none (or\n"
"missing-add, missing-flush, late-flush: for tests of the oracle only), --platform honest (or lying: PMDK is told that\n"
"the processor's caches survive a loss of power, so it flushes nothing; for tests of the oracle only).\n"
"Exit status: 0 well, equal; 1 environment; 2 wrong use; 3 something differs; 4 a step failed in run.\n";

const char *pool_path(const struct options *options)
{
	static char path[PATH_MAX];

	if (snprintf(path, sizeof(path), "%s/" POOL_NAME, options->dir) >= (int)sizeof(path))
		die(EXIT_USAGE, "--dir is too long");
	return path;
}

/* Starts the program once more, because PMDK reads this (libpmem(7)) when it is loaded. */
static void believe_the_platform(char **argv)
{
	const char *variable = "PMEM_NO_FLUSH";

	if (getenv(variable))
		return;
	if (!setenv(variable, "1", 1))
		execv("/proc/self/exe", argv);
	die(EXIT_ENVIRONMENT, "cannot start /proc/self/exe again: %s", strerror(errno));
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--help"))
			return fputs(help, stdout) < 0 || fflush(stdout) ? EXIT_ENVIRONMENT : EXIT_EQUAL;
	if (argc < 2)
		die(EXIT_USAGE, "no command; see pmemobj --help");
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		struct options options;
		int status;

		if (strcmp(argv[1], commands[i].name))
			continue;
		options = options_parse(argc - 1, argv + 1, commands[i].known);
		if (options.lying)
			believe_the_platform(argv);
		status = commands[i].function(&options);
		if (fflush(stdout) || ferror(stdout))
			die(EXIT_ENVIRONMENT, "cannot write to standard output");
		return status;
	}
	die(EXIT_USAGE, "unknown command %s; see pmemobj --help", argv[1]);
}
