// SPDX-License-Identifier: Apache-2.0
#include "synced.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "entry.h"
#include "history.h"
#include "states.h"
#include "util.h"

struct check {
	struct report *report;
	struct history history;
	const struct model *model;
	unsigned int xattrs;	/* as in the options */
};

static void check_names(struct check *check, int fd, struct object *dir, const char *path);

/* Counts a file or a name in a state, and @lost, the first step that is not there, 0 if all are. */
static void count(struct check *check, enum state state, uint64_t lost)
{
	struct report *report = check->report;

	report->states[state]++;
	if (lost && (!report->lost || lost < report->lost))
		report->lost = lost;
}

/* The first step for certain after event @at of a name, 0 if none is. */
static uint64_t lost_after(const struct slot *slot, size_t at)
{
	while (++at < slot->events)
		if (slot->event[at].sure)
			return slot->event[at].step;
	return 0;
}

/* The last event from @first on after which the name stands for @object; the number of events if none does. */
static size_t last_with(const struct slot *slot, size_t first, const struct object *object)
{
	for (size_t i = slot->events; i-- > first;)
		if (slot->event[i].object == object)
			return i;
	return slot->events;
}

static void check_absent(struct check *check, const struct object *dir, struct slot *slot, const char *path, int error)
{
	struct report *report = check->report;
	size_t first = slot_first(dir, slot), at = last_with(slot, first, NULL);
	struct object *object = slot->event[first].object;

	if (error != ENOENT) {
		report_add(report, DIFFERENCE_UNREADABLE, path, 0, 0, "stat: %s", strerror(error));
	} else if (slot->listed) {
		report_add(report, DIFFERENCE_MISSING, path, 0, 0, "listed, but not found by its name");
	} else if (at < slot->events) {
		uint64_t lost = lost_after(slot, at);

		if (lost)
			count(check, STATE_OLDER, lost);
		return;
	} else {
		report_add(report, DIFFERENCE_MISSING, path, 0, 0, "the %s was made durable",
			   object->type == NODE_DIR ? "dir" : "file");
	}
	/* Once is enough. */
	if (object)
		object->found = true;
	count(check, error == ENOENT && !slot->listed ? STATE_UNSYNCED : STATE_DAMAGED, 0);
}

/* What is found under a name that stands for it since event @at. */
static void settle(struct check *check, struct slot *slot, size_t at, const char *path, struct finding finding)
{
	uint64_t since = slot->event[at].step, later = lost_after(slot, at);

	if (finding.lost && finding.lost < since)
		check->report->renamed++;
	if (finding.state == STATE_NEWEST && later)
		finding.state = STATE_OLDER;
	if (later && (!finding.lost || later < finding.lost))
		finding.lost = later;
	count(check, finding.state, finding.lost);
	if (finding.state >= STATE_STALE)
		report_add(check->report, finding.length ? DIFFERENCE_CONTENT : DIFFERENCE_SIZE, path, finding.offset,
			   finding.length, "%s", state_names[finding.state]);
}

static void note_found(struct check *check, struct object *object, const char *path)
{
	if (object->found) {
		count(check, STATE_MISPLACED, 0);
		report_add(check->report, DIFFERENCE_EXTRA, path, 0, 0, "it is at another name, too");
	}
	object->found = true;
}

static struct about about_of(const struct check *check, const struct object *dir, const struct slot *slot,
			     const struct object *object)
{
	return (struct about){ object->type == NODE_DIR, object->twin, check->xattrs,
			       slot->event[slot->events - 1].step > dir->names_synced };
}

static void check_inode(struct check *check, int fd, const struct about *about, const char *path)
{
	uint64_t before = check->report->count;

	check_metadata(check->report, fd, about, path);
	if (check->report->count != before)
		count(check, STATE_DAMAGED, 0);
}

static void check_dir(struct check *check, int fd, const struct object *dir, struct slot *slot, size_t at,
		      const char *path)
{
	struct object *object = slot->event[at].object;
	struct about about = about_of(check, dir, slot, object);
	bool twice = object->found;

	settle(check, slot, at, path, (struct finding){ .state = STATE_NEWEST });
	note_found(check, object, path);
	check_inode(check, fd, &about, path);
	if (twice)
		close(fd);
	else
		check_names(check, fd, object, path);
}

static void check_file(struct check *check, int fd, const struct object *dir, struct slot *slot, size_t first,
		       const char *path)
{
	struct finding best = { .state = STATES };
	size_t at = first, possible = 0;
	struct about about;

	/* The latest of those that it is equally well. */
	for (size_t i = slot->events; i-- > first;) {
		struct object *object = slot->event[i].object;
		struct finding finding;

		if (!object || object->type != NODE_FILE)
			continue;
		finding = find_state(fd, object, object->twin ? model_seed_of(check->model, object->twin)
							      : check->model->seed);
		if (finding.state < STATE_STALE) {
			object->maybe = true;
			possible++;
		}
		if (finding.state < best.state) {
			best = finding;
			at = i;
		}
	}
	about = about_of(check, dir, slot, slot->event[at].object);
	settle(check, slot, at, path, best);
	if (possible < 2)
		note_found(check, slot->event[at].object, path);
	check_inode(check, fd, &about, path);
	close(fd);
}

/* The latest event from @first on after which the name stands for a file, or a directory; slot->events if none. */
static size_t last_of(const struct slot *slot, size_t first, enum node_type type)
{
	for (size_t i = slot->events; i-- > first;)
		if (slot->event[i].object && slot->event[i].object->type == type)
			return i;
	return slot->events;
}

static void check_present(struct check *check, int parent, const struct object *dir, struct slot *slot,
			  const char *path, mode_t mode)
{
	enum node_type type = S_ISDIR(mode) ? NODE_DIR : NODE_FILE;
	size_t first = slot_first(dir, slot), at = last_of(slot, first, type);
	int fd;

	if (!slot->listed) {
		report_add(check->report, DIFFERENCE_MISSING, path, 0, 0, "found by its name, but not listed");
		count(check, STATE_DAMAGED, 0);
	}
	if ((!S_ISREG(mode) && !S_ISDIR(mode)) || last_of(slot, 0, type) == slot->events) {
		report_add(check->report, DIFFERENCE_TYPE, path, 0, 0, "%s", type_name(mode));
		count(check, STATE_DAMAGED, 0);
		return;
	}
	if (at == slot->events) {
		report_add(check->report, DIFFERENCE_EXTRA, path, 0, 0, "its removal was made durable");
		count(check, STATE_UNSYNCED, 0);
		return;
	}
	fd = openat(parent, slot->name,
		    O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (type == NODE_DIR ? O_DIRECTORY : 0));
	if (fd < 0) {
		report_add(check->report, DIFFERENCE_UNREADABLE, path, 0, 0, "open: %s", strerror(errno));
		count(check, STATE_DAMAGED, 0);
	} else if (type == NODE_DIR) {
		check_dir(check, fd, dir, slot, at, path);
	} else {
		check_file(check, fd, dir, slot, first, path);
	}
}

static void list(struct check *check, DIR *listing, struct object *dir, const char *dir_path)
{
	char path[PATH_SIZE + NAME_MAX + 2];
	struct dirent *entry;
	size_t entries = 0;
	uint64_t before = check->report->count;

	for (errno = 0; entries <= ENTRIES_MAX && (entry = readdir(listing)); errno = 0, entries++) {
		struct slot *slot = history_slot(dir, entry->d_name);

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		join_path(path, sizeof(path), dir_path, entry->d_name);
		if (!slot)
			report_add(check->report, DIFFERENCE_EXTRA, path, 0, 0, "there was no such name");
		else if (slot->listed)
			report_add(check->report, DIFFERENCE_EXTRA, path, 0, 0, "the name is listed more than once");
		else
			slot->listed = true;
	}
	if (entries > ENTRIES_MAX)
		report_add(check->report, DIFFERENCE_EXTRA, dir_path, 0, 0, "more than %u entries", ENTRIES_MAX);
	else if (errno)
		report_add(check->report, DIFFERENCE_UNREADABLE, dir_path, 0, 0, "readdir: %s", strerror(errno));
	check->report->states[STATE_DAMAGED] += check->report->count - before;
}

/* Compares the directory open as @fd, which it closes, with what @dir was. */
static void check_names(struct check *check, int fd, struct object *dir, const char *dir_path)
{
	char path[PATH_SIZE + NAME_MAX + 2];
	DIR *listing = fdopendir(fd);

	if (!listing)
		die(EXIT_ENVIRONMENT, "cannot list %s: %s", dir_path, strerror(errno));
	dir->found = true;
	list(check, listing, dir, dir_path);
	for (size_t i = 0; i < dir->slots; i++) {
		struct slot *slot = &dir->slot[i];
		struct stat stat;

		join_path(path, sizeof(path), dir_path, slot->name);
		if (fstatat(fd, slot->name, &stat, AT_SYMLINK_NOFOLLOW))
			check_absent(check, dir, slot, path, errno);
		else
			check_present(check, fd, dir, slot, path, stat.st_mode);
	}
	closedir(listing);
}

/* What was renamed, and is neither at the old name nor at the new one. What lay in it goes with it. */
static void check_nowhere(struct check *check)
{
	for (size_t i = 0; i < check->history.objects; i++) {
		struct object *object = check->history.object[i];

		if (object->found || object->maybe || !history_must_be(&check->history, object) || !object->dir->found)
			continue;
		report_add(check->report, DIFFERENCE_MISSING, ".", 0, 0, "a %s is at none of the names that it had",
			   object->type == NODE_DIR ? "dir" : "file");
		count(check, STATE_MISPLACED, 0);
	}
}

void check_synced(struct report *report, int root, const struct options *options, uint64_t steps, bool next)
{
	struct model model;
	struct check check = { .report = report, .model = &model, .xattrs = options->xattrs };
	int fd = openat(root, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct step step;

	if (fd < 0)
		die(EXIT_ENVIRONMENT, "cannot open the test directory again: %s", strerror(errno));
	model_init(&model, options->seed, options->max_bytes, options->twins, options->twin_bytes);
	history_init(&check.history, &model, options);
	steps_replay(&model, steps, &options->failed, history_before, &check.history);
	if (next && step_plan(&model, &step))
		history_in_flight(&check.history, &step);
	check_names(&check, fd, check.history.object[0], ".");
	check_nowhere(&check);
	history_free(&check.history);
	model_free(&model);
}
