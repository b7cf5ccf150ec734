// SPDX-License-Identifier: Apache-2.0
#include "round.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util.h"

const char *const step_names[] = { "create", "mkdir", "copy", "scan", "read", "compile", "remove" };

static unsigned int add_thing(struct shape *shape, enum thing_type type, unsigned int parent, unsigned int file,
			      unsigned int from, const char *name)
{
	struct thing thing = { type, parent, from, file, "" };
	const char *dir = parent ? shape->thing[parent].path : "";

	snprintf(thing.path, sizeof(thing.path), "%.20s%s%.10s", dir, parent ? "/" : "", name);
	shape->thing = grow(shape->thing, shape->things + 1, sizeof(thing));
	shape->thing[shape->things] = thing;
	return shape->things++;
}

static void add_step(struct shape *shape, enum step_kind kind, unsigned int thing)
{
	shape->step = grow(shape->step, shape->steps + 1, sizeof(*shape->step));
	shape->step[shape->steps++] = (struct step){ kind, thing };
}

/* A directory with the source tree, which is copied from things @from and following if that is not 0. */
static unsigned int add_tree(struct shape *shape, const char *name, unsigned int from)
{
	unsigned int top = add_thing(shape, THING_DIR, 0, 0, 0, name);
	char text[16];

	for (unsigned int i = 0; i < DIRS; i++) {
		snprintf(text, sizeof(text), "d%u", i);
		add_thing(shape, THING_DIR, top, 0, 0, text);
	}
	for (unsigned int file = 0; file < shape->files; file++) {
		snprintf(text, sizeof(text), is_header(file) ? "common.h" : "m%03u.c", file % 1000);
		add_thing(shape, THING_SOURCE, top + 1 + file % DIRS, file, from ? from + 1 + DIRS + file : 0, text);
	}
	return top;
}

static void add_objects(struct shape *shape, unsigned int top)
{
	char text[16];

	for (unsigned int file = DIRS; file < shape->files; file++) {
		unsigned int from = top + 1 + DIRS + file;

		snprintf(text, sizeof(text), "m%03u.o", file % 1000);
		add_thing(shape, THING_OBJECT, shape->thing[from].parent, file, from, text);
	}
	add_thing(shape, THING_PROGRAM, top, 0, 0, "program");
}

void shape_init(struct shape *shape, unsigned int files)
{
	unsigned int src, dst, objects;

	*shape = (struct shape){ .files = files };
	add_thing(shape, THING_DIR, 0, 0, 0, ".");
	src = add_tree(shape, "src", 0);
	dst = add_tree(shape, "dst", src);
	objects = shape->things;
	add_objects(shape, dst);
	for (unsigned int i = 0; i < objects; i++)
		add_step(shape, i < dst ? STEP_CREATE : shape->thing[i].type == THING_DIR ? STEP_MKDIR : STEP_COPY, i);
	for (unsigned int i = dst; i < objects; i++)
		add_step(shape, STEP_SCAN, i);
	for (unsigned int i = dst; i < objects; i++)
		if (shape->thing[i].type == THING_SOURCE)
			add_step(shape, STEP_READ, i);
	for (unsigned int i = objects; i < shape->things; i++)
		add_step(shape, STEP_COMPILE, i);
	shape->removal = shape->steps;
	for (unsigned int i = shape->things; i-- > 0;)
		add_step(shape, STEP_REMOVE, i);
}

void shape_free(struct shape *shape)
{
	free(shape->thing);
	free(shape->step);
}

void thing_path(const struct thing *thing, uint64_t round, char path[PATH_SIZE])
{
	if (!strcmp(thing->path, "."))
		snprintf(path, PATH_SIZE, "r%llu", (unsigned long long)round);
	else
		snprintf(path, PATH_SIZE, "r%llu/%s", (unsigned long long)round, thing->path);
}
