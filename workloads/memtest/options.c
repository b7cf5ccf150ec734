// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "model.h"
#include "steps.h"
#include "util.h"

static const struct option all[] = {
	{ "dir", required_argument, NULL, 'd' },    { "seed", required_argument, NULL, 's' },
	{ "twins", required_argument, NULL, 't' },  { "max-bytes", required_argument, NULL, 'b' },
	{ "steps", required_argument, NULL, 'n' },  { "progress", required_argument, NULL, 'p' },
	{ "done", required_argument, NULL, 'o' },   { "intent", required_argument, NULL, 'i' },
	{ "failed", required_argument, NULL, 'x' }, { "fsync", no_argument, NULL, 'f' },
	{ "json", no_argument, NULL, 'j' },	    { "xattrs", required_argument, NULL, 'a' },
	{ "oldest", required_argument, NULL, 'k' }, { "twin-bytes", required_argument, NULL, 'w' },
	{ "fsync-every", required_argument, NULL, 'e' }, { "bug", required_argument, NULL, 'u' },
	{ "defer", required_argument, NULL, 'l' },
	{ NULL, 0, NULL, 0 },
};

static const char *name_of(int letter)
{
	const struct option *option = all;

	while (option->val != letter)
		option++;
	return option->name;
}

static uint64_t number(const char *command, int letter, uint64_t least, uint64_t most)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(optarg, &end, 10);
	if (!isdigit((unsigned char)*optarg) || *end || errno || value < least || value > most)
		die(EXIT_USAGE, "%s: --%s must be a number from %llu to %llu", command, name_of(letter),
		    (unsigned long long)least, (unsigned long long)most);
	return value;
}

/* STEP:HOW,STEP:HOW...; empty if no step failed. */
static struct failed_list failed_steps(const char *command)
{
	struct failed_list list = { 0 };
	const char *text = optarg;

	while (*text) {
		struct failed failed;
		int used = 0;

		/* The width is HOW_SIZE - 1. */
		if (!isdigit((unsigned char)*text) ||
		    sscanf(text, "%9" SCNu64 ":%23[A-Za-z0-9]%n", &failed.step, failed.how, &used) != 2 || !used ||
		    (text[used] && (text[used] != ',' || !text[used + 1])) || list.count == FAILURES_MAX ||
		    failed.step <= (list.count ? list.failed[list.count - 1].step : 0))
			die(EXIT_USAGE, "%s: --failed must be STEP:HOW,STEP:HOW... with rising steps, at most %u", command,
			    FAILURES_MAX);
		list.failed = grow(list.failed, list.count + 1, sizeof(failed));
		list.failed[list.count++] = failed;
		text += used + (text[used] == ',');
	}
	return list;
}

static void set(struct options *options, const char *command, int letter)
{
	switch (letter) {
	case 'd':
		options->dir = optarg;
		break;
	case 'p':
		options->progress = optarg;
		break;
	case 'l':
		options->defer = optarg;
		break;
	case 's':
		options->seed = number(command, letter, 0, UINT64_MAX);
		break;
	case 't':
		options->twins = (unsigned int)number(command, letter, 0, TWINS_MAX);
		break;
	case 'w':
		options->twin_bytes = (unsigned int)number(command, letter, 1, FILE_MAX);
		break;
	case 'a':
		options->xattrs = (unsigned int)number(command, letter, 0, ATTRIBUTE_MAX);
		break;
	case 'b':
		options->max_bytes = number(command, letter, MAX_BYTES_LEAST, MAX_BYTES_MOST);
		break;
	case 'n':
		options->steps = number(command, letter, 0, STEPS_MAX);
		break;
	case 'o':
		options->done = number(command, letter, 0, STEPS_MAX);
		break;
	case 'i':
		options->intent = number(command, letter, 0, STEPS_MAX + 1);
		break;
	case 'k':
		options->oldest = number(command, letter, 0, STEPS_MAX);
		break;
	case 'e':
		options->fsync_every = number(command, letter, 0, STEPS_MAX);
		break;
	case 'x':
		options->failed = failed_steps(command);
		break;
	case 'u':
		options->missing_fsync = !strcmp(optarg, "missing-fsync");
		if (!options->missing_fsync && strcmp(optarg, "none"))
			die(EXIT_USAGE, "%s: --bug must be none or missing-fsync", command);
		break;
	case 'f':
		options->fsync = true;
		break;
	case 'j':
		options->json = true;
	}
}

struct options options_parse(int argc, char **argv, const char *known)
{
	struct options options = {
		.max_bytes = MAX_BYTES_DEFAULT, .steps = UINT64_MAX, .twins = TWINS_DEFAULT,
		.twin_bytes = TWIN_BYTES_DEFAULT, .oldest = OLDEST_NONE
	};
	bool given[128] = { false };
	int letter, at = 1;

	opterr = 0;
	while ((letter = getopt_long(argc, argv, "+:", all, NULL)) != -1) {
		if (letter == ':')
			die(EXIT_USAGE, "%s: %s needs a value", argv[0], argv[at]);
		if (letter == '?')
			die(EXIT_USAGE, "%s: wrong option %s; see memtest --help", argv[0], argv[at]);
		if (!strchr(known, letter) && !strchr(known, toupper(letter)))
			die(EXIT_USAGE, "%s: takes no --%s; see memtest --help", argv[0], name_of(letter));
		set(&options, argv[0], letter);
		given[letter] = true;
		at = optind;
	}
	if (optind < argc)
		die(EXIT_USAGE, "%s: unexpected argument %s; see memtest --help", argv[0], argv[optind]);
	for (; *known; known++)
		if (isupper((unsigned char)*known) && !given[tolower((unsigned char)*known)])
			die(EXIT_USAGE, "%s: --%s must be given", argv[0], name_of(tolower((unsigned char)*known)));
	return options;
}
