// SPDX-License-Identifier: Apache-2.0
#include "expect.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compile.h"
#include "io.h"
#include "util.h"

static const struct failed *failure_in(const struct shape *shape, const struct reported *reported, uint64_t round)
{
	for (unsigned int i = 0; i < reported->failures; i++)
		if (round_of(shape, reported->failed[i].step) == round)
			return &reported->failed[i];
	return NULL;
}

/* How many things the first @steps steps of a round have made. */
static unsigned int made(const struct shape *shape, uint64_t steps)
{
	unsigned int count = 0;

	for (unsigned int i = 0; i < steps && i < shape->steps; i++)
		count += makes(shape->step[i].kind);
	return count;
}

/* Adds the tree of @round, of whose steps @steps are over and @flight, a step's number or 0, may be done. */
static void add_round(struct trees *trees, const struct shape *shape, uint64_t round, uint64_t steps, uint64_t flight,
		      const struct failed *failure)
{
	struct tree *before = trees->count ? &trees->tree[trees->count - 1] : NULL;
	const struct step *step = flight ? step_of(shape, flight) : NULL;
	struct tree tree = { round, made(shape, steps), NO_THING, failure };

	if (step && makes(step->kind))
		tree.flight = step->thing;
	/* What is left of a round that failed is not removed. */
	if (before && before->round == round - 1 && !before->failure) {
		before->count -= steps > shape->removal ? steps - shape->removal : 0;
		before->flight = step && step->kind == STEP_REMOVE ? step->thing : NO_THING;
		before->failure = failure;
		if (!before->count)
			trees->count--;
	}
	trees->tree = grow(trees->tree, trees->count + 1, sizeof(tree));
	trees->tree[trees->count++] = tree;
}

void trees_init(struct trees *trees, const struct shape *shape, const struct reported *reported)
{
	uint64_t newest = reported->intent ? reported->intent : reported->done;
	uint64_t last = newest ? round_of(shape, newest) : 0;

	*trees = (struct trees){ 0 };
	for (uint64_t round = 1; round <= last; round++) {
		const struct failed *failure = failure_in(shape, reported, round);
		uint64_t first = (round - 1) * shape->steps, upto = round == last ? reported->done : first + shape->steps;
		uint64_t flight = failure ? failure->step : round == last ? reported->intent : 0;

		if (flight)
			upto = flight - 1;
		add_round(trees, shape, round, upto - first, flight, failure);
	}
}

void scratch_init(struct scratch *scratch, const struct shape *shape, const char *folder)
{
	*scratch = (struct scratch){ .shape = shape, .compiled = grow(NULL, shape->things, sizeof(bool)) };
	if (asprintf(&scratch->folder, "%s/andrew-XXXXXX", folder) < 0)
		die(EXIT_ENVIRONMENT, "out of memory");
	if (!mkdtemp(scratch->folder) || chdir(scratch->folder))
		die(EXIT_ENVIRONMENT, "cannot make a directory in %s: %s", folder, strerror(errno));
	for (unsigned int i = 0; i < DIRS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "d%u", i);
		if (mkdir(name, 0755))
			die(EXIT_ENVIRONMENT, "cannot make a directory in %s: %s", scratch->folder, strerror(errno));
	}
}

/* The path from dst/, which is where a compiler runs. */
static const char *inside(const struct thing *thing)
{
	return thing->path + strlen("dst/");
}

static bool in_copy(const struct thing *thing)
{
	return !strncmp(thing->path, "dst/", strlen("dst/")) && thing->type != THING_DIR;
}

void scratch_free(struct scratch *scratch)
{
	for (unsigned int i = 0; i < scratch->shape->things; i++)
		if (in_copy(&scratch->shape->thing[i]))
			unlink(inside(&scratch->shape->thing[i]));
	for (unsigned int i = 0; i < DIRS; i++) {
		char name[16];

		snprintf(name, sizeof(name), "d%u", i);
		rmdir(name);
	}
	rmdir(scratch->folder);
	free(scratch->folder);
	free(scratch->compiled);
}

static void put(const char *path, const void *data, size_t length)
{
	unlink(path);
	if (!write_new(AT_FDCWD, path, data, length, false))
		die(EXIT_ENVIRONMENT, "cannot write %s in the scratch directory: %s", path, strerror(errno));
}

static void lay_sources(struct scratch *scratch, const struct origin *origin)
{
	if (!memcmp(&scratch->origin, origin, sizeof(*origin)))
		return;
	scratch->origin = *origin;
	memset(scratch->compiled, 0, scratch->shape->things * sizeof(bool));
	for (unsigned int i = 0; i < scratch->shape->things; i++) {
		const struct thing *thing = &scratch->shape->thing[i];
		size_t length;
		char *text;

		if (!in_copy(thing) || thing->type != THING_SOURCE)
			continue;
		text = source_text(origin, thing->file, scratch->shape->files, &length);
		put(inside(thing), text, length);
		free(text);
	}
}

static uint8_t *compiled(char *const *inputs, size_t count, size_t *length)
{
	uint8_t *bytes = compile(inputs, count, length);

	if (!bytes)
		die(EXIT_ENVIRONMENT, "the compiler does not accept %s", inputs[0]);
	return bytes;
}

static uint8_t *object_bytes(struct scratch *scratch, unsigned int number, size_t *length)
{
	const struct thing *thing = &scratch->shape->thing[number];
	char *input[] = { (char *)inside(&scratch->shape->thing[thing->from]) };
	uint8_t *bytes = compiled(input, 1, length);

	put(inside(thing), bytes, *length);
	scratch->compiled[number] = true;
	return bytes;
}

static uint8_t *program_bytes(struct scratch *scratch, size_t *length)
{
	char *inputs[scratch->shape->files];
	size_t count = 0;

	for (unsigned int i = 0; i < scratch->shape->things; i++) {
		if (scratch->shape->thing[i].type != THING_OBJECT)
			continue;
		if (!scratch->compiled[i])
			free(object_bytes(scratch, i, length));
		inputs[count++] = (char *)inside(&scratch->shape->thing[i]);
	}
	return compiled(inputs, count, length);
}

uint8_t *expected_bytes(struct scratch *scratch, const struct origin *origin, unsigned int number, size_t *length)
{
	const struct thing *thing = &scratch->shape->thing[number];

	if (thing->type == THING_SOURCE)
		return (uint8_t *)source_text(origin, thing->file, scratch->shape->files, length);
	lay_sources(scratch, origin);
	return thing->type == THING_OBJECT ? object_bytes(scratch, number, length) : program_bytes(scratch, length);
}
