// SPDX-License-Identifier: Apache-2.0
/*
 * The operations that a sweep crashes in (operations.yaml).
 *
 *	operation do FOLDER STEP [, STEP]...	a step is a verb and its operands, one system call for most (verbs.c)
 *	operation beside FOLDER PACE STEP [, STEP]...
 *						again and again, each time that another processor had the emulator's
 *						thread for PACE ms; SIGTERM ends it when a turn has ended
 *	operation tree FOLDER			what is below it (tree.h)
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tree.h"
#include "verbs.h"

static volatile sig_atomic_t stopped;

static void take_steps(int count, char **words)
{
	int first = 0;

	for (int i = 0; i <= count; i++) {
		if (i < count && strcmp(words[i], ","))
			continue;
		carry_out(i - first, words + first);
		first = i + 1;
	}
}

static double now(void)
{
	struct timespec time;

	clock_gettime(CLOCK_MONOTONIC, &time);
	return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6;
}

static void stop(int number)
{
	(void)number;
	stopped = 1;
}

static void go_beside(double pace, int count, char **words)
{
	double last = now();

	signal(SIGTERM, stop);
	while (!stopped) {
		double time = now();

		if (time - last > pace) {
			/* What it reads may have gone. */
			if (!fork()) {
				take_steps(count, words);
				_exit(0);
			}
			wait(NULL);
			turn++;
			time = now();
		}
		last = time;
	}
	exit(0);
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "tree"))
		return print_tree(argv[2]);
	if (argc < 4 || chdir(argv[2])) {
		fputs("operation: wants do FOLDER STEP, beside FOLDER PACE STEP or tree FOLDER\n", stderr);
		return 2;
	}
	if (!strcmp(argv[1], "beside"))
		go_beside(atof(argv[3]), argc - 4, argv + 4);
	take_steps(argc - 3, argv + 3);
	return 0;
}
