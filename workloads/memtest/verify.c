// SPDX-License-Identifier: Apache-2.0
/*
 * Compares the test directory with the model. The directory may have been
 * damaged in any way: nothing in it is followed or opened unless the model has a file or
 * a directory of that name there and that is what it is.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "compare.h"
#include "entry.h"
#include "inflight.h"
#include "model.h"
#include "moment.h"
#include "report.h"
#include "steps.h"
#include "synced.h"
#include "util.h"

struct verify {
	const struct model *model;
	unsigned int xattrs;	/* as in the options */
	struct flights flights;	/* the model's failures, in order, then the step at the crash */
	struct report report;
	FILE *deferred;		/* for the paths of files whose bytes are left to another; NULL: none are */
};

/* An expected name in a directory, and whether the directory lists it. */
struct slot {
	struct expect expect;
	bool listed;
};

static void check_dir(struct verify *verify, int fd, const struct node *dir, const char *path);

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct slot *)a)->expect.name, ((const struct slot *)b)->expect.name);
}

/* Counts the files at and below @node, and their bytes. */
static void weigh(const struct node *node, uint64_t *files, uint64_t *bytes)
{
	if (node->type == NODE_FILE) {
		++*files;
		*bytes += node->file.size;
	}
	for (size_t i = 0; i < node->children; i++)
		weigh(node->child[i], files, bytes);
}

static void lose(struct report *report, const struct node *node)
{
	weigh(node, &report->files_lost, &report->bytes_lost);
}

static size_t make_slots(const struct verify *verify, const struct node *dir, struct slot **slots)
{
	struct expect new;
	size_t count = 0;

	*slots = grow(NULL, dir->children + verify->flights.count + 1, sizeof(**slots));
	for (; count < dir->children; count++)
		(*slots)[count] = (struct slot){ flights_at(&verify->flights, dir->child[count]), false };
	for (size_t i = 0; i < verify->flights.count; i++)
		if (inflight_new(&verify->flights.flight[i], dir, &new))
			(*slots)[count++] = (struct slot){ new, false };
	qsort(*slots, count, sizeof(**slots), by_name);
	return count;
}

static void report_extra(struct verify *verify, int fd, const char *dir, const char *name, bool twice)
{
	char path[PATH_SIZE + NAME_MAX + 2];
	struct stat stat;

	join_path(path, sizeof(path), dir, name);
	if (twice)
		report_add(&verify->report, DIFFERENCE_EXTRA, path, 0, 0, "the name is listed more than once");
	else if (fstatat(fd, name, &stat, AT_SYMLINK_NOFOLLOW))
		report_add(&verify->report, DIFFERENCE_EXTRA, path, 0, 0, "%s", strerror(errno));
	else
		report_add(&verify->report, DIFFERENCE_EXTRA, path, 0, 0, "%s of size %lld", type_name(stat.st_mode),
			   (long long)stat.st_size);
}

/* Marks the slots that the directory lists, and reports names that have none. */
static void list_names(struct verify *verify, DIR *listing, struct slot *slots, size_t count, const char *path)
{
	struct dirent *entry;
	size_t entries = 0;

	for (errno = 0; (entry = readdir(listing)); errno = 0) {
		struct slot key = { .expect.name = entry->d_name };
		struct slot *slot;

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		if (++entries > ENTRIES_MAX) {
			report_add(&verify->report, DIFFERENCE_EXTRA, path, 0, 0, "more than %u entries", ENTRIES_MAX);
			return;
		}
		slot = bsearch(&key, slots, count, sizeof(*slots), by_name);
		if (!slot || slot->listed)
			report_extra(verify, dirfd(listing), path, entry->d_name, slot);
		else
			slot->listed = true;
	}
	if (errno)
		report_add(&verify->report, DIFFERENCE_UNREADABLE, path, 0, 0, "readdir: %s", strerror(errno));
}

/* Leaves the bytes of a file that has the right size to another, unless a step may have left other bytes. */
static bool defer(struct verify *verify, int fd, const struct expect *expect, const char *path)
{
	uint64_t size = expect->node->file.size;
	struct stat stat;

	if (!verify->deferred || !size || expect->flight || fstat(fd, &stat) || (uint64_t)stat.st_size != size)
		return false;
	fprintf(verify->deferred, "%s\n", path);
	verify->report.bytes += size;
	return true;
}

/* What @expect says is there, and of the right type. */
static void check_node(struct verify *verify, int dir, const struct expect *expect, const char *path)
{
	bool is_dir = expect->node->type == NODE_DIR;
	struct about about = { is_dir, expect->node->twin ? expect->node : NULL, verify->xattrs,
			       flights_link(&verify->flights, expect->node) };
	int fd = openat(dir, expect->name,
			O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (is_dir ? O_DIRECTORY : 0));

	if (fd < 0) {
		report_add(&verify->report, DIFFERENCE_UNREADABLE, path, 0, 0, "open: %s", strerror(errno));
		lose(&verify->report, expect->node);
	} else if (is_dir) {
		FILE *deferred = verify->deferred;

		/* What is in it may be at two paths, or at another than in the model. */
		if (expect->flight)
			verify->deferred = NULL;
		check_metadata(&verify->report, fd, &about, path);
		check_dir(verify, fd, expect->node, path);
		verify->deferred = deferred;
	} else {
		uint64_t before = verify->report.count;

		verify->report.files++;
		check_metadata(&verify->report, fd, &about, path);
		if (!defer(verify, fd, expect, path))
			compare_file(&verify->report, fd, path, expect, model_seed_of(verify->model, expect->node));
		verify->report.files_lost += verify->report.count != before;
		close(fd);
	}
}

static void wrong_type(struct report *report, const struct node *node, const char *path, mode_t mode)
{
	report_add(report, DIFFERENCE_TYPE, path, 0, 0, "%s, should be a %s", type_name(mode),
		   node->type == NODE_DIR ? "dir" : "file");
	lose(report, node);
}

/* What the report has for the failed step that @expect comes from; NULL if it comes from none. */
static struct frozen *frozen_at(struct verify *verify, const struct expect *expect)
{
	size_t index = expect->flight ? (size_t)(expect->flight - verify->flights.flight) : SIZE_MAX;

	return index < verify->report.frozen_count ? &verify->report.frozen[index] : NULL;
}

static void check_slot(struct verify *verify, int dir, const struct slot *slot, const char *dir_path)
{
	const struct expect *expect = &slot->expect;
	bool is_dir = expect->node->type == NODE_DIR;
	struct report *report = &verify->report;
	char path[PATH_SIZE + NAME_MAX + 2];
	uint64_t before = report->files_lost;
	struct stat stat;

	join_path(path, sizeof(path), dir_path, expect->name);
	if (fstatat(dir, expect->name, &stat, AT_SYMLINK_NOFOLLOW)) {
		if (errno == ENOENT && !slot->listed && expect->absent_is_right)
			return;
		if (errno != ENOENT)
			report_add(report, DIFFERENCE_UNREADABLE, path, 0, 0, "stat: %s", strerror(errno));
		else if (slot->listed)
			report_add(report, DIFFERENCE_MISSING, path, 0, 0, "listed, but not found by its name");
		else
			report_add(report, DIFFERENCE_MISSING, path, 0, 0, "should be a %s of size %llu",
				   is_dir ? "dir" : "file", (unsigned long long)expect->node->file.size);
		lose(report, expect->node);
		return;
	}
	if (!slot->listed)
		report_add(report, DIFFERENCE_MISSING, path, 0, 0, "found by its name, but not listed");
	if (is_dir ? !S_ISDIR(stat.st_mode) : !S_ISREG(stat.st_mode))
		wrong_type(report, expect->node, path, stat.st_mode);
	else
		check_node(verify, dir, expect, path);
	/* Who lists the directory does not find it, so it counts as lost even if its bytes are right. */
	if (!slot->listed && !is_dir && report->files_lost == before)
		report->files_lost++;
}

/* Compares the directory open as @fd, which it closes, with @dir. */
static void check_dir(struct verify *verify, int fd, const struct node *dir, const char *path)
{
	DIR *listing = fdopendir(fd);
	struct slot *slots;
	size_t count;

	if (!listing)
		die(EXIT_ENVIRONMENT, "cannot list %s: %s", path, strerror(errno));
	verify->report.dirs++;
	count = make_slots(verify, dir, &slots);
	list_names(verify, listing, slots, count, path);
	for (size_t i = 0; i < count; i++) {
		struct frozen *outer = verify->report.at, *frozen = frozen_at(verify, &slots[i].expect);

		if (frozen) {
			frozen->reached = true;
			verify->report.at = frozen;
		}
		check_slot(verify, fd, &slots[i], path);
		verify->report.at = outer;
	}
	free(slots);
	closedir(listing);
}

/*
 * Opens the test directory. When it cannot be opened though the directory it
 * lies in can, that is a difference: reports it and returns -1.
 */
static int open_root(struct report *report, const char *path)
{
	char *copy = strdup(path);
	int fd, parent, error;

	/* With a slash at its end, a symlink would be followed. */
	while (copy && strlen(copy) > 1 && copy[strlen(copy) - 1] == '/')
		copy[strlen(copy) - 1] = '\0';
	fd = copy ? open(copy, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC) : -1;
	error = errno;
	parent = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	free(copy);
	if (parent < 0)
		die(EXIT_ENVIRONMENT, "cannot open the directory that holds %s: %s", path, strerror(errno));
	close(parent);
	if (fd < 0)
		report_add(report, error == ENOENT ? DIFFERENCE_MISSING : error == ENOTDIR || error == ELOOP ?
			   DIFFERENCE_TYPE : DIFFERENCE_UNREADABLE, ".", 0, 0, "%s", strerror(error));
	return fd;
}

/* Compares the directory open as @root with the model, whose failed steps and @next, if any, may be in flight. */
static void compare(struct verify *verify, int root, const struct step *next)
{
	const struct model *model = verify->model;
	int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (fd < 0)
		die(EXIT_ENVIRONMENT, "cannot open the test directory again: %s", strerror(errno));
	verify->flights = (struct flights){ 0 };
	for (size_t i = 0; i < model->failures; i++)
		flights_add(&verify->flights, &model->failure[i].step, root);
	if (next)
		flights_add(&verify->flights, next, root);
	check_dir(verify, fd, model->root, ".");
	flights_free(&verify->flights);
}

/* Makes @model that of @moment, and reports how the directory open as @root, or -1, differs. */
static void judge(struct verify *verify, struct model *model, const struct options *options, int root,
		  const struct moment *moment)
{
	struct step step;

	moment_model(model, moment, options);
	if (moment->next && !step_plan(model, &step))
		die(EXIT_USAGE, "verify: no step %" PRIu64 " is possible after those that failed", moment->steps + 1);
	verify->model = model;
	verify->xattrs = options->xattrs;
	weigh(model->root, &verify->report.files_expected, &verify->report.bytes_expected);
	report_failures(&verify->report, model);
	if (root >= 0)
		compare(verify, root, moment->next ? &step : NULL);
	else
		lose(&verify->report, model->root);
}

int command_verify(const struct options *options)
{
	static struct verify verify;
	struct report *report = &verify.report;
	struct moment moment = newest_moment(options);
	enum exit_status status;
	struct model model;
	int root;

	if (options->defer && options->oldest < options->done)
		die(EXIT_USAGE, "verify: --defer is for files of which nothing may be lost");
	if (options->oldest != OLDEST_NONE && options->oldest > options->done)
		die(EXIT_USAGE, "verify: --oldest must not be more than --done");
	verify.deferred = options->defer ? fopen(options->defer, "we") : NULL;
	if (options->defer && !verify.deferred)
		die(EXIT_ENVIRONMENT, "cannot write %s: %s", options->defer, strerror(errno));
	root = open_root(report, options->dir);
	judge(&verify, &model, options, root, &moment);
	if (verify.deferred && (ferror(verify.deferred) | fclose(verify.deferred)))
		die(EXIT_ENVIRONMENT, "cannot write %s", options->defer);
	/* What is lost is counted; what may be lost is no difference. */
	report->may_lose = options->oldest < options->done;
	if (report->count && report->may_lose && root < 0)
		report->states[STATE_DAMAGED]++;
	else if (report->count && report->may_lose) {
		report_forget(report);
		check_synced(report, root, options, moment.steps, moment.next);
	}
	report->done = options->done;
	report->intent = options->intent;
	report->oldest = options->oldest;
	report_print(report, options->json);
	status = report->count ? EXIT_DIFFERS : EXIT_EQUAL;
	if (root >= 0)
		close(root);
	report_free(report);
	model_free(&model);
	return status;
}
