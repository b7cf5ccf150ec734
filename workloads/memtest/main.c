// SPDX-License-Identifier: Apache-2.0
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "commands.h"
#include "util.h"

static const struct {
	const char *name;
	int (*function)(const struct options *options);
	const char *known;	/* as options_parse() takes it */
} commands[] = {
	{ "prepare", command_prepare, "Dstwa" },
	{ "run", command_run, "DSPbnfeu" },
	{ "verify", command_verify, "DSOibtwxkjael" },
	{ "contents", command_contents, "SOibtwx" },
	{ "model", command_model, "SNbtwxj" },
	{ "steps", command_steps, "SNbx" },
};

static const char help[] =
"memtest: a repeatable stream of file system steps, and the model that says what they must leave behind\n"
"\n"
"  memtest prepare --dir D [--twins N] [--twin-bytes N] [--xattrs N] [--seed S]\n"
"      make D/tree and pairs of twin files of 1 to N bytes in D/twins (they do not depend on the seed), with\n"
"      --xattrs each with an extended attribute of 1 to N bytes\n"
"  memtest run --dir D --seed S --progress PATH [--max-bytes N] [--steps N] [--fsync]\n"
"              [--fsync-every N] [--bug missing-fsync]\n"
"      do the steps from step 1 on, for ever or N of them; --fsync makes each durable before it is reported,\n"
"      --fsync-every each N-th (0: none); with the bug, which is for tests of verify, no fsync is called\n"
"  memtest verify --dir D --seed S --done N [--intent N+1] [--oldest K] [--failed LIST] [--max-bytes N] [--twins N]\n"
"                 [--twin-bytes N] [--xattrs N] [--fsync-every N] [--defer LIST] [--json]\n"
"      compare D with what must be there after step N, with step N+1 perhaps in flight; with --oldest what the steps\n"
"      after K did may be lost, but not what --fsync-every made durable; with --defer the paths of files whose\n"
"      bytes were not compared are written to LIST\n"
"  memtest contents --seed S --done N [--intent N+1] [--failed LIST] [--max-bytes N] [--twins N] [--twin-bytes N]\n"
"      compare the bytes of these files, which come on standard input: for each a line SIZE PATH, then SIZE bytes\n"
"  memtest model --seed S --steps N [--failed LIST] [--max-bytes N] [--twins N]\n"
"                [--twin-bytes N] [--json]\n"
"      print what must be there after step N\n"
"  memtest steps --seed S --steps N [--failed LIST] [--max-bytes N]\n"
"      print the steps 1 to N, one JSON object a line\n"
"\n"
"LIST is STEP:HOW,STEP:HOW...: the steps of E records, with the word that each begins its text with.\n"
"Defaults: --max-bytes 8388608 (all files in D/tree together), --twins 8, --twin-bytes 32768. Numbers are decimal.\n"
"Exit status: 0 well, equal; 1 environment; 2 wrong use; 3 something differs; 4 a system call on D failed in run.\n";

int main(int argc, char **argv)
{
	size_t count = sizeof(commands) / sizeof(commands[0]);

	for (int i = 1; i < argc; i++)
		if (!strcmp(argv[i], "--help"))
			return fputs(help, stdout) < 0 || fflush(stdout) ? EXIT_ENVIRONMENT : EXIT_EQUAL;
	if (argc < 2)
		die(EXIT_USAGE, "no command; see memtest --help");
	umask(022);
	for (size_t i = 0; i < count; i++) {
		struct options options;
		int status;

		if (strcmp(argv[1], commands[i].name))
			continue;
		options = options_parse(argc - 1, argv + 1, commands[i].known);
		status = commands[i].function(&options);
		if (fflush(stdout) || ferror(stdout))
			die(EXIT_ENVIRONMENT, "cannot write to standard output");
		return status;
	}
	die(EXIT_USAGE, "unknown command %s; see memtest --help", argv[1]);
}
