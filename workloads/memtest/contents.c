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
#include "inflight.h"
#include "moment.h"
#include "util.h"

struct contents {
	struct model model;
	struct flights flights;
	bool differs;
	char *line;
	size_t room;
};

static uint8_t found[FILE_MAX], right[FILE_MAX];

static void compare_bytes(struct contents *contents, const struct node *node)
{
	char path[PATH_SIZE], want[PATH_SIZE + 32];
	size_t size = node->file.size;

	node_path(node, path);
	snprintf(want, sizeof(want), "%zu %s\n", size, path);
	if (getline(&contents->line, &contents->room, stdin) < 0 || strcmp(contents->line, want))
		die(EXIT_ENVIRONMENT, "contents: want the file %s of size %zu next", path, size);
	if (fread(found, 1, size, stdin) != size)
		die(EXIT_ENVIRONMENT, "contents: standard input ends within %s", path);
	file_read(&node->file, model_seed_of(&contents->model, node), 0, right, size);
	if (!memcmp(found, right, size))
		return;
	printf("%s\n", path);
	contents->differs = true;
}

/* Compares all at and below @node that no step in flight has to do with. */
static void compare_node(struct contents *contents, const struct node *node)
{
	if (flights_at(&contents->flights, node).flight)
		return;
	if (node->type == NODE_FILE && node->file.size)
		compare_bytes(contents, node);
	for (size_t i = 0; i < node->children; i++)
		compare_node(contents, node->child[i]);
}

int command_contents(const struct options *options)
{
	struct moment moment = newest_moment(options);
	static struct contents contents;
	struct step step;

	moment_model(&contents.model, &moment, options);
	for (size_t i = 0; i < contents.model.failures; i++)
		flights_add(&contents.flights, &contents.model.failure[i].step, -1);
	if (moment.next && step_plan(&contents.model, &step))
		flights_add(&contents.flights, &step, -1);
	compare_node(&contents, contents.model.root);
	if (getchar() != EOF)
		die(EXIT_ENVIRONMENT, "contents: standard input has more than the files of the model");
	free(contents.line);
	flights_free(&contents.flights);
	model_free(&contents.model);
	return contents.differs ? EXIT_DIFFERS : EXIT_EQUAL;
}
