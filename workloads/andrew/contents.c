// SPDX-License-Identifier: Apache-2.0
/*
 * Compares the bytes of files that verify left to another. It looks at no disk: the files come on standard input, in
 * the order in which verify finds them if all is as it must be, and may hold anything.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "commands.h"
#include "expect.h"
#include "io.h"
#include "util.h"

struct contents {
	struct shape shape;
	struct scratch scratch;
	bool differs;
	/* The file that comes next: its line, NULL at the end, with its size and where its path begins. */
	char *line;
	size_t room;
	size_t size;
	int path;
};

static void read_line(struct contents *contents)
{
	ssize_t length = getline(&contents->line, &contents->room, stdin);

	if (length < 0) {
		free(contents->line);
		contents->line = NULL;
		return;
	}
	contents->path = 0;
	contents->line[length - 1] = '\0';
	if (sscanf(contents->line, "%zu %n", &contents->size, &contents->path) != 1 || contents->size > SIZE_MOST)
		die(EXIT_ENVIRONMENT, "contents: want a line with SIZE, at most %u, and PATH", SIZE_MOST);
}

static void compare_file(struct contents *contents, const struct origin *origin, unsigned int number)
{
	size_t size = contents->size, length;
	uint8_t *found = grow(NULL, size + 1, 1);
	uint8_t *right = expected_bytes(&contents->scratch, origin, number, &length);

	if (fread(found, 1, size, stdin) != size)
		die(EXIT_ENVIRONMENT, "contents: standard input ends within %s", contents->line + contents->path);
	if (length != size || memcmp(found, right, size)) {
		printf("%s\n", contents->line + contents->path);
		contents->differs = true;
	}
	free(found);
	free(right);
}

static void compare_tree(struct contents *contents, const struct tree *tree, const struct origin *origin)
{
	for (unsigned int i = 0; i < tree->count; i++) {
		const struct thing *thing = &contents->shape.thing[i];
		char name[PATH_SIZE], path[PATH_SIZE + 24];

		if (thing->type == THING_DIR)
			continue;
		thing_path(thing, tree->round, name);
		snprintf(path, sizeof(path), "p%u/%s", (unsigned int)origin->process, name);
		if (contents->line && !strcmp(contents->line + contents->path, path)) {
			compare_file(contents, origin, i);
			read_line(contents);
		} else if (i != tree->flight) {
			die(EXIT_ENVIRONMENT, "contents: want the file %s next", path);
		}
	}
}

int command_contents(const struct options *options)
{
	static struct contents contents;

	shape_init(&contents.shape, options->files);
	scratch_init(&contents.scratch, &contents.shape, options->scratch);
	read_line(&contents);
	for (unsigned int process = 0; process < options->processes; process++) {
		struct origin origin = { options->seed, process, 0 };
		struct trees trees;

		trees_init(&trees, &contents.shape, &options->reported[process]);
		for (size_t i = 0; i < trees.count; i++) {
			origin.round = trees.tree[i].round;
			compare_tree(&contents, &trees.tree[i], &origin);
		}
		free(trees.tree);
	}
	scratch_free(&contents.scratch);
	shape_free(&contents.shape);
	if (contents.line)
		die(EXIT_ENVIRONMENT, "contents: standard input has more than the files that must be there");
	return contents.differs ? EXIT_DIFFERS : EXIT_EQUAL;
}
