// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "commands.h"
#include "compile.h"
#include "util.h"

static const struct {
	const char *name;
	int (*function)(const struct options *options);
} commands[] = {
	{ "prepare", command_prepare },
	{ "run", command_run },
	{ "verify", command_verify },
	{ "contents", command_contents },
};

static const char help[] =
"andrew: processes that make, copy, examine, compile and remove source trees, and an oracle for them\n"
"\n"
"  andrew prepare --dir D [--processes P]\n"
"      make D with a directory for each process\n"
"  andrew run --dir D --seed S [--processes P] [--files N] [--rounds N] [--fsync] [--progress PATH] [--stream T]\n"
"      let P processes work, for ever or N rounds each\n"
"  andrew verify --dir D --seed S --done LIST --intent LIST --failed LIST [--processes P] [--files N]\n"
"                [--scratch DIR] [--defer LIST] [--json]\n"
"      compare D with what must be there after those steps of each process; --rounds N for all of them instead: after\n"
"      N rounds without a failure; with --defer the paths of files whose bytes were not compared are written to LIST\n"
"  andrew contents --seed S --done LIST --intent LIST --failed LIST [--processes P] [--files N] [--scratch DIR]\n"
"      compare the bytes of these files, which come on standard input: for each a line SIZE PATH, then SIZE bytes\n"
"  andrew cc [--fsync] OUTPUT INPUT...\n"
"      compile a C file, or link objects\n"
"\n"
"Defaults: --processes 4, --files 16 (8 to 400, in a tree), --progress /dev/null, --scratch /tmp. Lists of numbers have\n"
"commas; --failed has STEP:HOW,STEP:HOW... for each process, with slashes between processes.\n"
"Exit status: 0 well, equal; 1 environment; 2 wrong use; 3 something differs; 4 steps failed in run.\n";

int main(int argc, char **argv)
{
	static struct options options;

	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--help"))
			return fputs(help, stdout) < 0 || fflush(stdout) ? EXIT_ENVIRONMENT : EXIT_EQUAL;
	if (argc < 2)
		die(EXIT_USAGE, "no command; see andrew --help");
	umask(022);
	if (!strcmp(argv[1], "cc"))
		return command_cc(argc - 1, argv + 1);
	for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
		int status;

		if (strcmp(argv[1], commands[i].name))
			continue;
		options_parse(&options, argc - 1, argv + 1);
		status = commands[i].function(&options);
		if (fflush(stdout) || ferror(stdout))
			die(EXIT_ENVIRONMENT, "cannot write to standard output");
		return status;
	}
	die(EXIT_USAGE, "unknown command %s; see andrew --help", argv[1]);
}
