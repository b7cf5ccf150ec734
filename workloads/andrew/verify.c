// SPDX-License-Identifier: Apache-2.0
/*
 * Compares the directory with what the processes must have left there. It may have been damaged in any way:
 * nothing in it is followed or opened unless it is a file or a directory that belongs there.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "expect.h"
#include "io.h"
#include "json.h"
#include "report.h"
#include "util.h"

/* More entries in one directory than this are not looked at: a damaged one may have no end. */
#define ENTRIES_MAX 100000u
#define PATH_FROM_DIR (PATH_SIZE + 24)

struct verify {
	const struct options *options;
	struct shape shape;
	struct trees trees[STREAMS];
	struct scratch scratch;
	struct report report;
	FILE *deferred;		/* for the paths of files whose bytes are left to another; NULL: none are */
};

/* Opens a directory of ours; reports what is wrong with it and returns -1 if it cannot be. */
static int open_dir(struct verify *verify, int parent, const char *name, const char *path)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int error = errno;

	if (fd < 0)
		report_add(&verify->report, error == ENOENT ? "missing" : error == ENOTDIR || error == ELOOP ? "type" :
			   "unreadable", path, 0, 0, "should be a dir: %s", strerror(error));
	else
		verify->report.dirs++;
	return fd;
}

static void join(char *path, size_t size, const char *dir, const char *name)
{
	snprintf(path, size, "%s%s%s", strcmp(dir, ".") ? dir : "", strcmp(dir, ".") ? "/" : "", name);
}

/* Reports the names in the directory open as @fd, which it closes, that @belongs does not know. */
static void list_extra(struct verify *verify, int fd, const char *path,
		       bool (*belongs)(const void *context, const char *name), const void *context)
{
	DIR *listing = fdopendir(fd);
	struct dirent *entry;
	size_t entries = 0;

	if (!listing)
		die(EXIT_ENVIRONMENT, "cannot list %s: %s", path, strerror(errno));
	for (errno = 0; (entry = readdir(listing)); errno = 0) {
		char full[PATH_FROM_DIR + NAME_MAX + 2];

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (++entries > ENTRIES_MAX) {
			report_add(&verify->report, "extra", path, 0, 0, "more than %u entries", ENTRIES_MAX);
			break;
		}
		join(full, sizeof(full), path, entry->d_name);
		if (!belongs(context, entry->d_name))
			report_add(&verify->report, "extra", full, 0, 0, "no step made it");
	}
	if (errno)
		report_add(&verify->report, "unreadable", path, 0, 0, "readdir: %s", strerror(errno));
	closedir(listing);
}

/* Compares what was read with the right bytes; of a file in flight some may not have been written yet. */
static void compare(struct verify *verify, const char *path, const uint8_t *found, size_t size, const uint8_t *right,
		    size_t length, bool in_flight)
{
	size_t common = size < length ? size : length, from = common, to = 0;

	verify->report.bytes += common;
	if (!in_flight)
		verify->report.bytes_lost += length - common;
	if (size > length || (size < length && !in_flight))
		report_add(&verify->report, "size", path, common, size < length ? length - size : size - length,
			   "size %zu, should be %zu", size, length);
	for (size_t i = 0; i < common; i++) {
		if (found[i] == right[i] || (in_flight && !found[i]))
			continue;
		from = i < from ? i : from;
		to = i + 1;
		verify->report.bytes_lost += !in_flight;
	}
	if (to)
		report_add(&verify->report, "content", path, from, to - from, "found %02x, should be %02x", found[from],
			   right[from]);
}

/* Leaves the bytes of a whole file, open as @fd, to another. Who reads more of one is told that it is too large. */
static bool defer(struct verify *verify, int fd, const char *path)
{
	struct stat stat;

	if (!verify->deferred || fstat(fd, &stat) || !stat.st_size || stat.st_size > SIZE_MOST)
		return false;
	fprintf(verify->deferred, "%s\n", path);
	verify->report.bytes += (uint64_t)stat.st_size;
	return true;
}

/* Whether the file could be read. */
static bool check_content(struct verify *verify, int root, const struct origin *origin, unsigned int number,
			  const char *name, const char *path, bool in_flight)
{
	int fd = openat(root, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
	uint8_t *found, *right;
	size_t size, length;

	verify->report.files++;
	if (fd >= 0 && !in_flight && defer(verify, fd, path)) {
		close(fd);
		return true;
	}
	found = fd < 0 ? NULL : read_whole(fd, &size);
	if (!found) {
		report_add(&verify->report, "unreadable", path, 0, 0, "%s: %s", fd < 0 ? "open" : "read",
			   strerror(errno));
	} else {
		right = expected_bytes(&verify->scratch, origin, number, &length);
		compare(verify, path, found, size, right, length, in_flight);
		free(right);
	}
	if (fd >= 0)
		close(fd);
	free(found);
	return found;
}

/* Whether the thing is there, of the right type and, if it is a file, readable. */
static bool check_thing(struct verify *verify, int root, const struct tree *tree, const struct origin *origin,
			unsigned int number)
{
	const struct thing *thing = &verify->shape.thing[number];
	bool dir = thing->type == THING_DIR, making = number == tree->count;
	char name[PATH_SIZE], path[PATH_FROM_DIR];
	struct stat stat;

	thing_path(thing, tree->round, name);
	snprintf(path, sizeof(path), "p%u/%s", (unsigned int)origin->process, name);
	if (fstatat(root, name, &stat, AT_SYMLINK_NOFOLLOW)) {
		if (errno != ENOENT)
			report_add(&verify->report, "unreadable", path, 0, 0, "stat: %s", strerror(errno));
		else if (number != tree->flight)
			report_add(&verify->report, "missing", path, 0, 0, "should be a %s", dir ? "dir" : "file");
		return false;
	}
	if (dir ? !S_ISDIR(stat.st_mode) : !S_ISREG(stat.st_mode)) {
		report_add(&verify->report, "type", path, 0, 0, "should be a %s", dir ? "dir" : "file");
		return false;
	}
	return dir || check_content(verify, root, origin, number, name, path, making);
}

static void lose_bytes(struct verify *verify, const struct origin *origin, unsigned int number)
{
	size_t length;

	free(expected_bytes(&verify->scratch, origin, number, &length));
	verify->report.bytes_lost += length;
}

/* Says what is lost of a file that must be there; @found: it was read, and what of it is wrong is counted. */
static void weigh(struct verify *verify, const struct tree *tree, const struct origin *origin, unsigned int number,
		  bool found, bool wrong)
{
	if (verify->shape.thing[number].type == THING_DIR || number >= tree->count || number == tree->flight)
		return;
	verify->report.files_expected++;
	verify->report.files_lost += wrong || !found;
	if (!found)
		lose_bytes(verify, origin, number);
}

struct listed {
	const struct shape *shape;
	const struct tree *tree;
	unsigned int dir;
};

static bool may_exist(const struct tree *tree, unsigned int thing)
{
	return thing < tree->count || thing == tree->flight;
}

static bool is_thing(const void *context, const char *name)
{
	const struct listed *listed = context;

	for (unsigned int i = 1; i < listed->shape->things && may_exist(listed->tree, i); i++) {
		const struct thing *thing = &listed->shape->thing[i];
		const char *slash = strrchr(thing->path, '/');

		if (thing->parent == listed->dir && !strcmp(slash ? slash + 1 : thing->path, name))
			return true;
	}
	return false;
}

static void check_tree(struct verify *verify, int root, const struct tree *tree, const struct origin *origin)
{
	bool *there = grow(NULL, verify->shape.things, sizeof(bool));

	verify->report.frozen_at = tree->failure ? tree->failure->step : 0;
	for (unsigned int i = 0; i < verify->shape.things && may_exist(tree, i); i++) {
		const struct thing *thing = &verify->shape.thing[i];
		struct listed listed = { &verify->shape, tree, i };
		uint64_t before = verify->report.count;
		char name[PATH_SIZE], path[PATH_FROM_DIR];
		int fd;

		/* With a missing directory all below it is missing; that is one difference. */
		there[i] = (i ? there[thing->parent] : root >= 0) && check_thing(verify, root, tree, origin, i);
		weigh(verify, tree, origin, i, there[i], verify->report.count > before);
		if (!there[i] || thing->type != THING_DIR)
			continue;
		thing_path(thing, tree->round, name);
		snprintf(path, sizeof(path), "p%u/%s", (unsigned int)origin->process, name);
		fd = open_dir(verify, root, name, path);
		if (fd >= 0)
			list_extra(verify, fd, path, is_thing, &listed);
		else
			there[i] = false;
	}
	verify->report.frozen_at = 0;
	free(there);
}

static bool is_tree(const void *context, const char *name)
{
	const struct trees *trees = context;

	for (size_t i = 0; i < trees->count; i++) {
		char round[PATH_SIZE];

		snprintf(round, sizeof(round), "r%llu", (unsigned long long)trees->tree[i].round);
		if (may_exist(&trees->tree[i], 0) && !strcmp(round, name))
			return true;
	}
	return false;
}

static void check_process(struct verify *verify, int root, unsigned int process)
{
	struct origin origin = { verify->options->seed, process, 0 };
	const struct trees *trees = &verify->trees[process];
	char name[16];
	int dir;

	snprintf(name, sizeof(name), "p%u", process);
	dir = root < 0 ? root : open_dir(verify, root, name, name);
	for (size_t i = 0; i < trees->count; i++) {
		origin.round = trees->tree[i].round;
		check_tree(verify, dir, &trees->tree[i], &origin);
	}
	if (dir >= 0)
		list_extra(verify, dir, name, is_tree, trees);
}

static bool is_process(const void *context, const char *name)
{
	unsigned int processes = ((const struct options *)context)->processes;

	return name[0] == 'p' && name[1] >= '0' && (unsigned int)(name[1] - '0') < processes && !name[2];
}

/* Opens the directory of all processes; -1 and a difference if it cannot be though the one that holds it can. */
static int open_root(struct verify *verify, const char *path)
{
	char *copy = strdup(path);
	int parent = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	free(copy);
	if (parent < 0)
		die(EXIT_ENVIRONMENT, "cannot open the directory that holds %s: %s", path, strerror(errno));
	close(parent);
	return open_dir(verify, AT_FDCWD, path, ".");
}

static void print_step(const struct shape *shape, unsigned int process, uint64_t number)
{
	const struct step *step = step_of(shape, number);
	char path[PATH_SIZE], text[PATH_FROM_DIR];

	thing_path(&shape->thing[step->thing], round_touched(shape, number), path);
	snprintf(text, sizeof(text), "p%u/%s", process, path);
	printf("\"operation\": \"%s\", \"path\": ", step_names[step->kind]);
	json_string(stdout, text);
}

static void print_process(const struct verify *verify, unsigned int number)
{
	const struct reported *reported = &verify->options->reported[number];
	uint64_t newest = reported->intent ? reported->intent : reported->done;

	printf("%s\n{\"process\": %u, \"done\": %" PRIu64 ", \"intent\": %" PRIu64, number ? "," : "", number,
	       reported->done, reported->intent);
	if (newest) {
		printf(", \"round\": %" PRIu64 ", ", round_of(&verify->shape, newest));
		print_step(&verify->shape, number, newest);
	}
	printf(", \"frozen\": [");
	for (unsigned int i = 0; i < reported->failures; i++) {
		printf("%s{\"step\": %" PRIu64 ", \"how\": \"%s\", ", i ? ", " : "", reported->failed[i].step,
		       reported->failed[i].how);
		print_step(&verify->shape, number, reported->failed[i].step);
		putchar('}');
	}
	printf("]}");
}

static void print(const struct verify *verify)
{
	const struct report *report = &verify->report;

	if (!verify->options->json) {
		printf("%s: %" PRIu64 " differences in %" PRIu64 " files, %" PRIu64 " directories, %" PRIu64
		       " bytes; lost %" PRIu64 " of %" PRIu64 " files, %" PRIu64 " bytes%s\n",
		       report->count ? "differs" : "equal", report->count, report->files, report->dirs, report->bytes,
		       report->files_lost, report->files_expected, report->bytes_lost, report->text);
		return;
	}
	printf("{\"files\": %" PRIu64 ", \"dirs\": %" PRIu64 ", \"bytes\": %" PRIu64 ", \"files_expected\": %" PRIu64
	       ", \"files_lost\": %" PRIu64 ", \"bytes_lost\": %" PRIu64 ", \"difference_count\": %" PRIu64
	       ", \"differences\": [%s], \"truncated\": %s, \"processes\": [", report->files, report->dirs, report->bytes,
	       report->files_expected, report->files_lost, report->bytes_lost, report->count, report->text, report->count > REPORT_LISTED ? "true" : "false");
	for (unsigned int i = 0; i < verify->options->processes; i++)
		print_process(verify, i);
	printf("]}\n");
}

int command_verify(const struct options *options)
{
	static struct verify verify;
	int root;

	verify.options = options;
	shape_init(&verify.shape, options->files);
	report_init(&verify.report);
	verify.deferred = options->defer ? fopen(options->defer, "we") : NULL;
	if (options->defer && !verify.deferred)
		die(EXIT_ENVIRONMENT, "cannot write %s: %s", options->defer, strerror(errno));
	for (unsigned int i = 0; i < options->processes; i++)
		trees_init(&verify.trees[i], &verify.shape, &options->reported[i]);
	root = open_root(&verify, options->dir);
	scratch_init(&verify.scratch, &verify.shape, options->scratch);
	for (unsigned int i = 0; i < options->processes; i++)
		check_process(&verify, root, i);
	if (root >= 0)
		list_extra(&verify, root, ".", is_process, options);
	scratch_free(&verify.scratch);
	if (verify.deferred && (ferror(verify.deferred) | fclose(verify.deferred)))
		die(EXIT_ENVIRONMENT, "cannot write %s", options->defer);
	fflush(verify.report.list);
	print(&verify);
	for (unsigned int i = 0; i < options->processes; i++)
		free(verify.trees[i].tree);
	shape_free(&verify.shape);
	report_free(&verify.report);
	return verify.report.count ? EXIT_DIFFERS : EXIT_EQUAL;
}
