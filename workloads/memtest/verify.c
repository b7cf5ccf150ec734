// SPDX-License-Identifier: Apache-2.0
/*
 * Compares the test directory with the model. The directory may have been
 * damaged in any way: nothing in it is followed or opened unless the model has a file or
 * a directory of that name there and that is what it is.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "compare.h"
#include "inflight.h"
#include "model.h"
#include "report.h"
#include "steps.h"
#include "util.h"

/* More entries in one directory than this are not looked at: a damaged one may have no end. */
#define ENTRIES_MAX 100000u

struct verify {
	const struct model *model;
	struct inflight inflight;
	struct report report;
};

/* An expected name in a directory, and whether the directory lists it. */
struct slot {
	struct expect expect;
	bool listed;
};

static void check_dir(struct verify *verify, int fd, const struct node *dir, const char *path);

static const char *type_name(mode_t mode)
{
	return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "dir" : S_ISLNK(mode) ? "symlink" :
	       S_ISFIFO(mode) ? "fifo" : S_ISSOCK(mode) ? "socket" : S_ISCHR(mode) ? "character device" :
	       S_ISBLK(mode) ? "block device" : "unknown type";
}

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct slot *)a)->expect.name, ((const struct slot *)b)->expect.name);
}

static size_t make_slots(const struct verify *verify, const struct node *dir, struct slot **slots)
{
	struct expect new;
	size_t count = 0;

	*slots = grow(NULL, dir->children + 1, sizeof(**slots));
	for (; count < dir->children; count++)
		(*slots)[count] = (struct slot){ inflight_at(&verify->inflight, dir->child[count]), false };
	if (inflight_new(&verify->inflight, dir, &new))
		(*slots)[count++] = (struct slot){ new, false };
	qsort(*slots, count, sizeof(**slots), by_name);
	return count;
}

static void join(char *path, size_t size, const char *dir, const char *name)
{
	if (strcmp(dir, "."))
		snprintf(path, size, "%s/%s", dir, name);
	else
		snprintf(path, size, "%s", name);
}

static void report_extra(struct verify *verify, int fd, const char *dir, const char *name, bool twice)
{
	char path[PATH_SIZE + NAME_MAX + 2];
	struct stat stat;

	join(path, sizeof(path), dir, name);
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

/* What @expect says is there, and of the right type. */
static void check_node(struct verify *verify, int dir, const struct expect *expect, const char *path)
{
	bool is_dir = expect->node->type == NODE_DIR;
	int fd = openat(dir, expect->name,
			O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (is_dir ? O_DIRECTORY : 0));

	if (fd < 0) {
		report_add(&verify->report, DIFFERENCE_UNREADABLE, path, 0, 0, "open: %s", strerror(errno));
	} else if (is_dir) {
		check_dir(verify, fd, expect->node, path);
	} else {
		verify->report.files++;
		compare_file(&verify->report, fd, path, expect, model_seed_of(verify->model, expect->node));
		close(fd);
	}
}

static void check_slot(struct verify *verify, int dir, const struct slot *slot, const char *dir_path)
{
	const struct expect *expect = &slot->expect;
	bool is_dir = expect->node->type == NODE_DIR;
	struct report *report = &verify->report;
	char path[PATH_SIZE + NAME_MAX + 2];
	struct stat stat;

	join(path, sizeof(path), dir_path, expect->name);
	if (fstatat(dir, expect->name, &stat, AT_SYMLINK_NOFOLLOW)) {
		if (errno != ENOENT)
			report_add(report, DIFFERENCE_UNREADABLE, path, 0, 0, "stat: %s", strerror(errno));
		else if (slot->listed)
			report_add(report, DIFFERENCE_MISSING, path, 0, 0, "listed, but not found by its name");
		else if (!expect->absent_is_right)
			report_add(report, DIFFERENCE_MISSING, path, 0, 0, "should be a %s of size %llu",
				   is_dir ? "dir" : "file", (unsigned long long)expect->node->file.size);
		return;
	}
	if (!slot->listed)
		report_add(report, DIFFERENCE_MISSING, path, 0, 0, "found by its name, but not listed");
	if (is_dir ? !S_ISDIR(stat.st_mode) : !S_ISREG(stat.st_mode))
		report_add(report, DIFFERENCE_TYPE, path, 0, 0, "%s, should be a %s", type_name(stat.st_mode),
			   is_dir ? "dir" : "file");
	else
		check_node(verify, dir, expect, path);
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
	for (size_t i = 0; i < count; i++)
		check_slot(verify, fd, &slots[i], path);
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

int command_verify(const struct options *options)
{
	static struct verify verify;
	struct model model;
	struct step step;
	int root;

	if (options->intent && options->intent != options->done + 1)
		die(EXIT_USAGE, "verify: --intent must be 0 or one more than --done");
	verify.report.done = options->done;
	verify.report.intent = options->intent;
	root = open_root(&verify.report, options->dir);
	model_init(&model, options->seed, options->max_bytes, options->twins);
	steps_replay(&model, options->done);
	step_plan(&model, &step);
	verify.model = &model;
	inflight_init(&verify.inflight, options->intent ? &step : NULL, root);
	if (root >= 0)
		check_dir(&verify, root, model.root, ".");
	report_print(&verify.report, options->json);
	inflight_free(&verify.inflight);
	model_free(&model);
	report_free(&verify.report);
	return verify.report.count ? EXIT_DIFFERS : EXIT_EQUAL;
}
