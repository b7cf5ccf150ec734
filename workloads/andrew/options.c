// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

/* Above any number of steps that a run can reach. */
#define STEPS_MAX 100000000u

static const struct option all[] = {
	{ "dir", required_argument, NULL, 'd' },      { "seed", required_argument, NULL, 's' },
	{ "files", required_argument, NULL, 'c' },    { "processes", required_argument, NULL, 'p' },
	{ "stream", required_argument, NULL, 'm' },   { "progress", required_argument, NULL, 'r' },
	{ "rounds", required_argument, NULL, 'n' },   { "done", required_argument, NULL, 'o' },
	{ "intent", required_argument, NULL, 'i' },   { "failed", required_argument, NULL, 'x' },
	{ "scratch", required_argument, NULL, 't' },  { "fsync", no_argument, NULL, 'f' },
	{ "json", no_argument, NULL, 'j' },	      { "defer", required_argument, NULL, 'l' },
	{ NULL, 0, NULL, 0 },
};

static uint64_t number(const char *text, char **end, uint64_t least, uint64_t most, const char *what)
{
	unsigned long long value;

	errno = 0;
	value = strtoull(text, end, 10);
	if (!isdigit((unsigned char)*text) || errno || value < least || value > most)
		die(EXIT_USAGE, "--%s: want numbers from %" PRIu64 " to %" PRIu64, what, least, most);
	return value;
}

static uint64_t one(const char *what, uint64_t least, uint64_t most)
{
	char *end;
	uint64_t value = number(optarg, &end, least, most, what);

	if (*end)
		die(EXIT_USAGE, "--%s: unexpected %s", what, end);
	return value;
}

/* A number for each process, with commas. */
static unsigned int each(struct reported *reported, const char *what, uint64_t most)
{
	char *text = optarg;
	unsigned int count = 0;

	for (;; text++) {
		uint64_t value = number(text, &text, 0, most, what);

		if (count == STREAMS || (*text && *text != ','))
			die(EXIT_USAGE, "--%s: want a number for each process, with commas", what);
		if (*what == 'd')
			reported[count++].done = value;
		else
			reported[count++].intent = value;
		if (!*text)
			return count;
	}
}

/* For each process STEP:HOW,STEP:HOW..., with slashes between them. */
static unsigned int failures(struct reported *reported)
{
	const char *text = optarg;
	unsigned int count = 0;

	for (;; text++) {
		struct reported *process = &reported[count];

		while (isdigit((unsigned char)*text)) {
			struct failed *failed = &process->failed[process->failures];
			int used = 0;

			/* The width is HOW_SIZE - 1. */
			if (process->failures++ == FAILURES_MAX ||
			    sscanf(text, "%9" SCNu64 ":%23[A-Za-z0-9]%n", &failed->step, failed->how, &used) != 2 ||
			    failed->step <= (process->failures > 1 ? failed[-1].step : 0))
				die(EXIT_USAGE, "--failed: want STEP:HOW with rising steps, at most %u", FAILURES_MAX);
			text += used + (text[used] == ',');
		}
		count++;
		if (!*text)
			return count;
		if (count == STREAMS || *text != '/')
			die(EXIT_USAGE, "--failed: unexpected %s", text);
	}
}

static void set(struct options *options, int letter, unsigned int *counts)
{
	switch (letter) {
	case 'd':
		options->dir = optarg;
		break;
	case 'r':
		options->progress = optarg;
		break;
	case 't':
		options->scratch = optarg;
		break;
	case 'l':
		options->defer = optarg;
		break;
	case 's':
		options->seed = one("seed", 0, UINT64_MAX);
		break;
	case 'c':
		options->files = (unsigned int)one("files", FILES_LEAST, FILES_MOST);
		break;
	case 'p':
		options->processes = (unsigned int)one("processes", 1, STREAMS);
		break;
	case 'm':
		options->stream = (unsigned int)one("stream", 0, STREAMS - 1);
		break;
	case 'n':
		options->rounds = one("rounds", 0, STEPS_MAX);
		break;
	case 'o':
		counts[0] = each(options->reported, "done", STEPS_MAX);
		break;
	case 'i':
		counts[1] = each(options->reported, "intent", STEPS_MAX + 1);
		break;
	case 'x':
		counts[2] = failures(options->reported);
		break;
	case 'f':
		options->fsync = true;
		break;
	case 'j':
		options->json = true;
		break;
	default:
		die(EXIT_USAGE, "wrong option or no value; see andrew --help");
	}
}

static void check_reported(const struct options *options)
{
	for (unsigned int i = 0; i < options->processes; i++) {
		const struct reported *process = &options->reported[i];

		if (process->intent && process->intent <= process->done)
			die(EXIT_USAGE, "--intent must be 0 or above --done");
		if (process->failures && process->failed[process->failures - 1].step > process->done &&
		    process->failed[process->failures - 1].step != process->intent)
			die(EXIT_USAGE, "--failed: a step cannot have failed before it was begun");
	}
}

/* All rounds were done, and no step of them failed. */
static void report_rounds(struct options *options)
{
	struct shape shape;

	shape_init(&shape, options->files);
	for (unsigned int i = 0; i < options->processes; i++)
		options->reported[i].done = options->rounds * shape.steps;
	shape_free(&shape);
}

void options_parse(struct options *options, int argc, char **argv)
{
	unsigned int counts[3] = { 0 };
	int letter;

	*options = (struct options){ .rounds = UINT64_MAX, .files = FILES_DEFAULT, .processes = 4, .scratch = "/tmp",
				     .progress = "/dev/null" };
	opterr = 0;
	while ((letter = getopt_long(argc, argv, "", all, NULL)) != -1)
		set(options, letter, counts);
	if (optind < argc)
		die(EXIT_USAGE, "unexpected argument %s; see andrew --help", argv[optind]);
	if (!options->dir && strcmp(argv[0], "contents"))
		die(EXIT_USAGE, "--dir must be given");
	if (options->stream + options->processes > STREAMS)
		die(EXIT_USAGE, "there are %u streams; lower --stream or --processes", STREAMS);
	for (int i = 0; i < 3; i++)
		if (counts[i] && counts[i] != options->processes)
			die(EXIT_USAGE, "--done, --intent and --failed want one part for each of %u processes",
			    options->processes);
	if (options->rounds != UINT64_MAX && !counts[0])
		report_rounds(options);
	check_reported(options);
}
