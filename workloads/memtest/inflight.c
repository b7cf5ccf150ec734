// SPDX-License-Identifier: Apache-2.0
#include "inflight.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util.h"

/* Whether the path, whose directories may be anything by now, is known to lead nowhere. */
static bool leads_nowhere(int root, char *path)
{
	char *name = path, *slash;
	int dir = dup(root), error = 0;
	struct stat stat;

	for (; !error && (slash = strchr(name, '/')); name = slash + 1) {
		int next;

		*slash = '\0';
		next = openat(dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		error = next < 0 ? errno : 0;
		close(dir);
		dir = next;
	}
	if (!error && fstatat(dir, name, &stat, AT_SYMLINK_NOFOLLOW))
		error = errno;
	close(dir);
	return error == ENOENT || error == ENOTDIR;
}

static bool changes_file(const struct step *step)
{
	return step->kind == STEP_WRITE || step->kind == STEP_APPEND || step->kind == STEP_TRUNCATE;
}

void flights_add(struct flights *flights, const struct step *step, int root)
{
	struct inflight *inflight;
	char path[PATH_SIZE];

	flights->flight = grow(flights->flight, flights->count + 1, sizeof(*inflight));
	inflight = &flights->flight[flights->count++];
	*inflight = (struct inflight){ .step = step };
	inflight->made.type = step->kind == STEP_MKDIR ? NODE_DIR : NODE_FILE;
	if (changes_file(step)) {
		inflight->after = file_copy(&step->node->file);
		step_change_file(step, &inflight->after);
	}
	if (step->kind == STEP_RENAME) {
		node_path(step->node, path);
		inflight->left = leads_nowhere(root, path);
	}
}

void flights_free(struct flights *flights)
{
	for (size_t i = 0; i < flights->count; i++)
		file_free(&flights->flight[i].after);
	free(flights->flight);
}

static bool inflight_links(const struct inflight *inflight, const struct node *node)
{
	const struct step *step = inflight->step;

	return node == &inflight->made || node == step->node || node == step->victim;
}

bool flights_link(const struct flights *flights, const struct node *node)
{
	for (size_t i = 0; i < flights->count; i++)
		if (inflight_links(&flights->flight[i], node))
			return true;
	return false;
}

static struct expect inflight_at(const struct inflight *inflight, const struct node *node)
{
	const struct step *step = inflight->step;
	struct expect expect = { .name = node->name, .node = node, .flight = inflight };

	if (node == step->victim) {
		/* Replaced for certain if the other file is gone from its old place. */
		if (inflight->left)
			expect.node = step->node;
		else
			expect.other = &step->node->file;
	} else if (changes_file(step)) {
		expect.other = &inflight->after;
		expect.cut = step->kind == STEP_TRUNCATE;
		expect.mixed = !expect.cut;
	} else {
		expect.absent_is_right = step->kind != STEP_READ;
	}
	return expect;
}

struct expect flights_at(const struct flights *flights, const struct node *node)
{
	for (size_t i = 0; i < flights->count; i++) {
		const struct step *step = flights->flight[i].step;

		if (node == step->node || node == step->victim)
			return inflight_at(&flights->flight[i], node);
	}
	return (struct expect){ .name = node->name, .node = node };
}

bool inflight_new(const struct inflight *inflight, const struct node *dir, struct expect *expect)
{
	const struct step *step = inflight->step;

	if (step->parent != dir || step->victim)
		return false;
	*expect = (struct expect){ .name = step->name, .node = &inflight->made, .absent_is_right = true,
				   .flight = inflight };
	if (step->kind == STEP_RENAME) {
		expect->node = step->node;
		expect->absent_is_right = !inflight->left;
	}
	return true;
}
