/* SPDX-License-Identifier: Apache-2.0 */
/*
 * riorecover: put the file cache of a crashed kernel back on disk.
 *
 * The order is that of Rio's warm reboot (Chen et al., ASPLOS 1996, section
 * 2.2): metadata to its disk addresses, then the check of the file system, then
 * file data through ordinary system calls.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <time.h>
#include <unistd.h>

#include "report.h"
#include "step.h"

enum { EXIT_ENVIRONMENT = 1, EXIT_USAGE = 2 };

struct options {
	const char *memory, *device, *mount_point, *e2fsck, *report, *fsck_log;
	uint64_t start, size, limit;
	bool has_registry;
};

static const char usage[] =
"usage: riorecover inspect --registry SIZE@START --limit BYTES --device FILE [--memory FILE]\n"
"       riorecover recover --device FILE --mount DIR [--registry SIZE@START --limit BYTES]\n"
"                          [--memory FILE] [--e2fsck FILE] [--fsck-log FILE] [--report FILE]\n"
"\n"
"inspect reads the registry and says what a recovery would restore; it writes\n"
"nothing. recover restores metadata, checks and mounts the file system, restores\n"
"file data and leaves it mounted; without a valid registry it only checks and mounts.\n"
"\n"
"  --registry SIZE@START  where the registry lies in memory (bytes; K, M, G; 0x)\n"
"  --limit BYTES          size of the memory of the crashed kernel\n"
"  --memory FILE          that memory: /dev/mem (default) or an image of it\n"
"  --device FILE          the disk of the file system\n"
"  --mount DIR            where to mount it\n"
"  --report FILE          JSON report (default: standard output)\n"
"exit status: 0 done, 1 the environment failed, 2 wrong use\n";

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

static int parse_options(int argc, char **argv, struct options *o)
{
	static const struct option longs[] = {
		{ "registry", required_argument, NULL, 'r' },
		{ "limit", required_argument, NULL, 'l' },
		{ "memory", required_argument, NULL, 'm' },
		{ "device", required_argument, NULL, 'd' },
		{ "mount", required_argument, NULL, 'p' },
		{ "e2fsck", required_argument, NULL, 'e' },
		{ "fsck-log", required_argument, NULL, 'f' },
		{ "report", required_argument, NULL, 'o' },
		{ NULL, 0, NULL, 0 },
	};
	char *end;
	int c;

	opterr = 0; /* one line about wrong use, and it is ours */
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
		case 'm': o->memory = optarg; break;
		case 'd': o->device = optarg; break;
		case 'p': o->mount_point = optarg; break;
		case 'e': o->e2fsck = optarg; break;
		case 'f': o->fsck_log = optarg; break;
		case 'o': o->report = optarg; break;
		default: return wrong_use("unknown option, or one without its value");
		}
	}
	if (optind != argc)
		return wrong_use("too many arguments");
	if (!o->device)
		return wrong_use("--device is missing");
	if (o->has_registry && !o->limit)
		return wrong_use("--registry needs --limit");
	return 0;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Opens the registry and collects what belongs to the device. */
static int read_registry(const struct options *o, struct memory *memory,
			 struct device *device, struct registry *registry,
			 enum registry_verdict *verdict)
{
	uint32_t dev;

	*verdict = registry_open(registry, memory, o->start, o->size);
	if (*verdict != REGISTRY_VALID)
		return 0;
	dev = registry_find_fs(registry, device->uuid);
	if (!dev) {
		fprintf(stderr, "riorecover: %s: its file system is not in the registry: cold start\n",
			o->device);
		*verdict = REGISTRY_NONE;
		return 0;
	}
	return registry_collect(registry, memory, dev, device->blocks);
}

static int write_report(const struct options *o, const struct report *report)
{
	FILE *out = o->report ? fopen(o->report, "w") : stdout;

	if (!out) {
		fprintf(stderr, "riorecover: %s: %s\n", o->report, strerror(errno));
		return EXIT_ENVIRONMENT;
	}
	report_print(out, report);
	if (o->report ? fclose(out) : fflush(out)) {
		fprintf(stderr, "riorecover: report: %s\n", strerror(errno));
		return EXIT_ENVIRONMENT;
	}
	return 0;
}

/* Everything between the registry and the report; report says how far it got. */
static int recover(const struct options *o, struct memory *memory,
		   struct device *device, struct registry *registry,
		   struct report *report)
{
	bool warm = report->verdict == REGISTRY_VALID;
	double start = now();

	if (warm && restore_metadata(registry, memory, device, &report->metadata))
		return EXIT_ENVIRONMENT;
	/* e2fsck wants the device for itself. */
	if (o->has_registry)
		close(device->fd);
	report->seconds_metadata = now() - start;

	start = now();
	report->e2fsck_status = check_file_system(o->e2fsck, o->device, o->fsck_log);
	report->seconds_e2fsck = now() - start;
	if (report->e2fsck_status < 0) {
		fprintf(stderr, "riorecover: %s: %s\n", o->e2fsck,
			strerror(-report->e2fsck_status));
		return EXIT_ENVIRONMENT;
	}

	start = now();
	report->mount_error = -mount_file_system(o->device, o->mount_point);
	if (report->mount_error)
		return 0; /* a result: the file system is lost */
	if (warm && restore_data(registry, memory, o->mount_point, &report->data))
		return EXIT_ENVIRONMENT;
	report->seconds_data = now() - start;

	if (report->metadata.failed || report->data.failed) {
		fprintf(stderr, "riorecover: %s: not all could be written; the registry stays valid\n",
			o->device);
		return 0;
	}
	/* Last, so that a crash anywhere above only means: once again. */
	return warm && registry_mark_recovered(registry, memory) ?
	       EXIT_ENVIRONMENT : 0;
}

int main(int argc, char **argv)
{
	struct options o = { .memory = "/dev/mem", .e2fsck = "/sbin/e2fsck",
			     .fsck_log = "/dev/null" };
	struct registry registry = { 0 };
	struct report report = { .verdict = REGISTRY_NONE, .registry = &registry,
				 .e2fsck_status = -1, .mount_error = -1 };
	struct memory memory = { 0 };
	struct device device;
	bool writing;
	int status;

	if (argc > 1 && !strcmp(argv[1], "--help")) {
		fputs(usage, stdout);
		return 0;
	}
	if (argc < 2 || (strcmp(argv[1], "inspect") && strcmp(argv[1], "recover")))
		return wrong_use("first argument must be inspect or recover");
	writing = !strcmp(argv[1], "recover");
	status = parse_options(argc - 1, argv + 1, &o);
	if (status)
		return status;
	if (writing ? !o.mount_point : !o.has_registry)
		return wrong_use(writing ? "--mount is missing" : "--registry is missing");

	if (o.has_registry) {
		status = device_open(&device, o.device, writing);
		/* A wrecked superblock is a result: e2fsck and mount will tell. */
		if (status == -EINVAL && writing)
			o.has_registry = false;
		else if (status)
			return EXIT_ENVIRONMENT;
	}
	if (o.has_registry) {
		if (memory_open(&memory, o.memory, o.limit, writing) ||
		    read_registry(&o, &memory, &device, &registry, &report.verdict))
			return EXIT_ENVIRONMENT;
	}
	status = writing ? recover(&o, &memory, &device, &registry, &report) : 0;
	if (!status)
		status = write_report(&o, &report);
	registry_close(&registry);
	if (o.has_registry)
		memory_close(&memory);
	return status;
}
