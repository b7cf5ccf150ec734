// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <ctype.h>
#include <errno.h>
#include <getopt.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

/* More than a run can do, and few enough to be replayed. */
#define STEPS_MAX 100000000u
#define MIB ((size_t)1 << 20)

static const struct option all[] = {
	{ "dir", required_argument, NULL, 'd' },      { "seed", required_argument, NULL, 's' },
	{ "progress", required_argument, NULL, 'p' }, { "steps", required_argument, NULL, 'n' },
	{ "done", required_argument, NULL, 'o' },     { "intent", required_argument, NULL, 'i' },
	{ "oldest", required_argument, NULL, 'k' },   { "pool-mib", required_argument, NULL, 'm' },
	{ "api", required_argument, NULL, 'a' },      { "bug", required_argument, NULL, 'b' },
	{ "platform", required_argument, NULL, 'l' }, { "json", no_argument, NULL, 'j' },
	{ NULL, 0, NULL, 0 },
};

static const char *const bugs[] = {
	[BUG_NONE] = "none", [BUG_MISSING_ADD] = "missing-add", [BUG_MISSING_FLUSH] = "missing-flush",
	[BUG_LATE_FLUSH] = "late-flush",
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

static const struct api *api(const char *command)
{
	for (const struct api *const *each = apis; *each; each++)
		if (!strcmp((*each)->name, optarg))
			return *each;
	die(EXIT_USAGE, "%s: --api must be tx, atomic, libpmem, btree or hashmap_tx", command);
}

static enum bug bug(const char *command)
{
	for (unsigned int i = 0; i < sizeof(bugs) / sizeof(bugs[0]); i++)
		if (!strcmp(bugs[i], optarg))
			return (enum bug)i;
	die(EXIT_USAGE, "%s: --bug must be none, missing-add, missing-flush or late-flush", command);
}

static bool lies(const char *command)
{
	if (strcmp(optarg, "honest") && strcmp(optarg, "lying"))
		die(EXIT_USAGE, "%s: --platform must be honest or lying", command);
	return !strcmp(optarg, "lying");
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
	case 's':
		options->seed = number(command, letter, 0, UINT64_MAX);
		break;
	case 'm':
		/* libpmemobj takes no pool of less than 8 MiB. */
		options->size = number(command, letter, 8, 1024) * MIB;
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
	case 'a':
		options->api = api(command);
		break;
	case 'b':
		options->bug = bug(command);
		break;
	case 'l':
		options->lying = lies(command);
		break;
	case 'j':
		options->json = true;
	}
}

static void check(const struct options *options, const char *command)
{
	if (options->intent && options->intent != options->done + 1)
		die(EXIT_USAGE, "%s: --intent must be 0 or one more than --done", command);
	if (options->oldest != OLDEST_NONE && options->oldest > options->done)
		die(EXIT_USAGE, "%s: --oldest must not be above --done", command);
	if (options->bug == BUG_MISSING_ADD && !options->api->transactions)
		die(EXIT_USAGE, "%s: --bug missing-add is for an --api with transactions", command);
}

struct options options_parse(int argc, char **argv, const char *known)
{
	struct options options = {
		.api = apis[0], .size = 16 * MIB, .steps = UINT64_MAX, .oldest = OLDEST_NONE, .progress = "/dev/null"
	};
	bool given[128] = { false };
	int letter, at = 1;

	opterr = 0;
	while ((letter = getopt_long(argc, argv, "+:", all, NULL)) != -1) {
		if (letter == ':')
			die(EXIT_USAGE, "%s: %s needs a value", argv[0], argv[at]);
		if (letter == '?')
			die(EXIT_USAGE, "%s: wrong option %s; see pmemobj --help", argv[0], argv[at]);
		if (!strchr(known, letter) && !strchr(known, toupper(letter)))
			die(EXIT_USAGE, "%s: takes no --%s; see pmemobj --help", argv[0], name_of(letter));
		set(&options, argv[0], letter);
		given[letter] = true;
		at = optind;
	}
	if (optind < argc)
		die(EXIT_USAGE, "%s: unexpected argument %s; see pmemobj --help", argv[0], argv[optind]);
	for (; *known; known++)
		if (isupper((unsigned char)*known) && !given[tolower((unsigned char)*known)])
			die(EXIT_USAGE, "%s: --%s must be given", argv[0], name_of(tolower((unsigned char)*known)));
	check(&options, argv[0]);
	return options;
}
