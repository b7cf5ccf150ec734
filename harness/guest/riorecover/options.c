/* SPDX-License-Identifier: Apache-2.0 */
#include "options.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rio_registry.h"
#include "step.h"

enum { EXIT_USAGE = 2 };

static const char usage[] =
"usage: riorecover inspect --registry SIZE@START --limit BYTES --device FILE [--memory FILE]\n"
"       riorecover recover --device FILE --mount DIR [--registry SIZE@START --limit BYTES]\n"
"                          [--memory FILE] [--save FILE] [--e2fsck FILE] [--fsck-log FILE]\n"
"                          [--report FILE] [--listed] [--rejected NUMBER] [--give-up]\n"
"                          [--type TYPE [--check COMMAND] [--repair COMMAND] [--without-log OPTION]]\n"
"\n"
"inspect reads the registry and says what a recovery would restore; it writes\n"
"nothing. recover restores metadata, checks and mounts the file system, restores\n"
"file data and leaves it mounted; without a valid registry it only checks and mounts.\n"
"\n"
"  --registry SIZE@START  where the registry lies in memory (bytes; K, M, G; 0x)\n"
"  --limit BYTES          size of the memory of the crashed kernel\n"
"  --memory FILE          that memory: /dev/mem (default) or an image of it\n"
"  --save FILE            a disk to save that memory on before anything is restored, and to\n"
"                         recover from if memory is then lost; its content is overwritten\n"
"  --device FILE          the disk of the file system\n"
"  --mount DIR            where to mount it\n"
"  --listed               do nothing unless the registry has something for the UUID of the\n"
"                         device's file system; other file systems are not asked for\n"
"  --rejected NUMBER      how many entries and log pages may be damaged; with more the status is 3\n"
"                         (default: any number; what they listed is not restored)\n"
"  --give-up              end the recovery even if not all is restored; what is missing is lost\n"
"  --type TYPE            of the file system: ext4 (default), which e2fsck checks before it is\n"
"                         mounted, or another, whose mount replays its log\n"
"  --check COMMAND        run on the device of another type after its log was replayed\n"
"  --repair COMMAND       run on the device of another type if it cannot be mounted\n"
"  --without-log OPTION   mount option of another type that leaves the log out; with it a mount that failed\n"
"                         is tried again, for reading only, before the repair: was it for the log?\n"
"  --report FILE          JSON report (default: standard output, which with this\n"
"                         option gets a line for each phase as it begins)\n"
"exit status: 0 done, 1 the environment failed, 2 wrong use, 3 not all that the\n"
"registry lists is restored, other file systems included, or its header is lost, or\n"
"too much of it is damaged; what is valid of it stays, so that it can be tried again,\n"
"4 the program that checks or repairs the file system is not there\n";

static int wrong_use(const char *why)
{
	fprintf(stderr, "riorecover: %s; see riorecover --help\n", why);
	return EXIT_USAGE;
}

static bool parse_bytes(const char *text, char **end, uint64_t *value)
{
	errno = 0;
	*value = strtoull(text, end, 0);
	/* strtoull() takes signs and blanks before the number; we do not. */
	if (errno || *text < '0' || *text > '9')
		return false;
	for (const char *unit = "KMG"; *unit; unit++) {
		if (**end != *unit)
			continue;
		int shift = 10 * (int)(unit - "KMG" + 1);

		if (*value > UINT64_MAX >> shift)
			return false;
		*value <<= shift;
		++*end;
		break;
	}
	return true;
}

static bool parse_range(const char *text, uint64_t *size, uint64_t *start)
{
	char *end;

	return parse_bytes(text, &end, size) && *end == '@' &&
	       parse_bytes(end + 1, &end, start) && !*end &&
	       *size % RIO_PAGE_SIZE == 0 && *start % RIO_PAGE_SIZE == 0 &&
	       *size >= 2 * RIO_PAGE_SIZE && *start + *size > *start;
}

/* The report has it between quotes. */
static bool is_word(const char *text)
{
	return *text && !text[strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789")];
}

static int parse_words(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{ "registry", required_argument, NULL, 'r' },
		{ "limit", required_argument, NULL, 'l' },
		{ "memory", required_argument, NULL, 'm' },
		{ "device", required_argument, NULL, 'd' },
		{ "mount", required_argument, NULL, 'p' },
		{ "save", required_argument, NULL, 's' },
		{ "e2fsck", required_argument, NULL, 'e' },
		{ "fsck-log", required_argument, NULL, 'f' },
		{ "type", required_argument, NULL, 't' },
		{ "check", required_argument, NULL, 'c' },
		{ "repair", required_argument, NULL, 'x' },
		{ "without-log", required_argument, NULL, 'w' },
		{ "report", required_argument, NULL, 'o' },
		{ "listed", no_argument, NULL, 'u' },
		{ "rejected", required_argument, NULL, 'j' },
		{ "give-up", no_argument, NULL, 'g' },
		{ NULL, 0, NULL, 0 },
	};
	char *end;
	int c;

	opterr = 0; /* we print the one line about wrong use */
	while ((c = getopt_long(argc, argv, "", longs, NULL)) != -1) {
		switch (c) {
		case 'r':
			o->has_registry = true;
			if (!parse_range(optarg, &o->size, &o->start))
				return wrong_use("--registry wants SIZE@START in whole pages");
			break;
		case 'l':
			if (!parse_bytes(optarg, &end, &o->limit) || *end)
				return wrong_use("--limit wants a number of bytes");
			break;
		case 'j':
			if (!parse_bytes(optarg, &end, &o->most_rejected) || *end)
				return wrong_use("--rejected wants a number");
			break;
		case 'm': o->memory = optarg; break;
		case 'd': o->device = optarg; break;
		case 's': o->save = optarg; break;
		case 'p': o->mount_point = optarg; break;
		case 'e': o->e2fsck = optarg; break;
		case 'f': o->fsck_log = optarg; break;
		case 't': o->type = optarg; break;
		case 'c': o->check = optarg; break;
		case 'x': o->repair = optarg; break;
		case 'w': o->without_log = optarg; break;
		case 'o': o->report = optarg; break;
		case 'u': o->listed = true; break;
		case 'g': o->give_up = true; break;
		default: return wrong_use("unknown option, or one without its value");
		}
	}
	return optind == argc ? 0 : wrong_use("too many arguments");
}

int options_parse(int argc, char **argv, struct options *o)
{
	int status;

	*o = (struct options){ .memory = "/dev/mem", .e2fsck = "/sbin/e2fsck",
			       .fsck_log = "/dev/null", .type = FS_EXT4,
			       .most_rejected = UINT64_MAX };
	if (argc > 1 && !strcmp(argv[1], "--help")) {
		fputs(usage, stdout);
		exit(0);
	}
	if (argc < 2 || (strcmp(argv[1], "inspect") && strcmp(argv[1], "recover")))
		return wrong_use("first argument must be inspect or recover");
	o->writing = !strcmp(argv[1], "recover");
	status = parse_words(argc - 1, argv + 1, o);
	if (status)
		return status;
	if (!o->device)
		return wrong_use("--device is missing");
	if (o->writing ? !o->mount_point : !o->has_registry)
		return wrong_use(o->writing ? "--mount is missing" : "--registry is missing");
	if (o->has_registry && !o->limit)
		return wrong_use("--registry needs --limit");
	if (strcmp(o->type, FS_EXT4) ? o->has_registry : o->check || o->repair || o->without_log)
		return wrong_use(o->has_registry ? "--registry goes with ext4 only" :
						   "--check, --repair and --without-log go with another --type");
	if (!is_word(o->type))
		return wrong_use("--type wants letters and digits");
	if ((o->save || o->listed || o->give_up) && !(o->writing && o->has_registry))
		return wrong_use("--save, --listed and --give-up go with recover and --registry");
	return 0;
}
