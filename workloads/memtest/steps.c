// SPDX-License-Identifier: Apache-2.0
#include "steps.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "content.h"
#include "util.h"

const char *const step_names[STEP_KINDS] = {
	[STEP_CREATE] = "create",	[STEP_WRITE] = "write",	  [STEP_APPEND] = "append",
	[STEP_TRUNCATE] = "truncate",	[STEP_READ] = "read",	  [STEP_MKDIR] = "mkdir",
	[STEP_RMDIR] = "rmdir",		[STEP_RENAME] = "rename", [STEP_UNLINK] = "unlink",
};

/* How often each kind is drawn, of their sum. Creation and removal are even; the limits steer. */
static const unsigned int weights[STEP_KINDS] = {
	[STEP_CREATE] = 10, [STEP_WRITE] = 24, [STEP_APPEND] = 16, [STEP_TRUNCATE] = 8, [STEP_READ] = 16,
	[STEP_MKDIR] = 5,   [STEP_RMDIR] = 5,  [STEP_RENAME] = 8,  [STEP_UNLINK] = 10,
};

/* The numbers of files and directories wander between a half of these and these. */
static size_t files_most(const struct model *model)
{
	uint64_t most = model->max_bytes / (64 * 1024);

	return most < 8 ? 8 : most > 4096 ? 4096 : most;
}

static size_t dirs_most(const struct model *model)
{
	size_t most = files_most(model) / 7;

	return most < 4 ? 4 : most;
}

static enum step_kind draw_kind(const struct model *model, struct rng *rng)
{
	size_t files = model->files.count, dirs = model->dirs.count - 1;
	uint64_t sum = 0, draw;
	int kind;

	for (kind = 0; kind < STEP_KINDS; kind++)
		sum += weights[kind];
	draw = rng_below(rng, sum);
	for (kind = 0; draw >= weights[kind]; kind++)
		draw -= weights[kind];

	if (kind == STEP_CREATE && files >= files_most(model))
		kind = STEP_UNLINK;
	if (kind == STEP_UNLINK && files < files_most(model) / 2)
		kind = STEP_CREATE;
	if (kind == STEP_MKDIR && dirs >= dirs_most(model))
		kind = STEP_RMDIR;
	if (kind == STEP_RMDIR && dirs < dirs_most(model) / 2)
		kind = STEP_MKDIR;
	if (!files && kind != STEP_MKDIR && kind != STEP_RMDIR)
		kind = STEP_CREATE;
	return kind;
}

/* Log-uniform up to 32 KiB, and now and then 32 to 256 KiB. */
static uint64_t draw_length(struct rng *rng)
{
	uint64_t power;

	if (rng_below(rng, 32) == 0)
		power = 1ull << (15 + rng_below(rng, 3));
	else
		power = 1ull << rng_below(rng, 15);
	return power + rng_below(rng, power);
}

static struct node *draw_file(const struct model *model, struct rng *rng)
{
	return model->files.node[rng_below(rng, model->files.count)];
}

static bool takes_names(const struct node *dir, unsigned int height)
{
	return !dir->closed && node_depth(dir) + 1 + height <= DEPTH_MAX;
}

/*
 * Where a new name goes; leaves room for @height levels below it. Old directories
 * are drawn more often, or hardly one would ever be empty for rmdir. NULL when all are closed.
 */
static struct node *draw_parent(const struct model *model, struct rng *rng, unsigned int height)
{
	uint64_t one = rng_below(rng, model->dirs.count), two = rng_below(rng, model->dirs.count);
	struct node *dir = model->dirs.node[one < two ? one : two];

	while (dir != model->root && !takes_names(dir, height))
		dir = dir->parent;
	if (dir != model->root)
		return dir;
	for (size_t i = 0; i < model->dirs.count; i++)
		if (takes_names(model->dirs.node[i], height))
			return model->dirs.node[i];
	return NULL;
}

/* Never used before, and of any length. */
static void draw_name(struct step *step, struct rng *rng, enum node_type type)
{
	static const char letters[] = "abcdefghijklmnopqrst";
	int extra = (int)rng_below(rng, sizeof(letters));

	snprintf(step->name, sizeof(step->name), "%c%06llu%.*s", type == NODE_FILE ? 'f' : 'd',
		 (unsigned long long)step->number, extra, letters);
}

static bool plan_new(const struct model *model, struct step *step, struct rng *rng, enum node_type type)
{
	step->parent = draw_parent(model, rng, type == NODE_DIR);
	draw_name(step, rng, type);
	return step->parent;
}

/* When there is no room to grow: half of the file goes, more or less. */
static void plan_shrink(struct step *step, struct rng *rng)
{
	if (step->node->file.size) {
		step->kind = STEP_TRUNCATE;
		step->offset = rng_below(rng, step->node->file.size);
	} else {
		step->kind = STEP_UNLINK;
	}
}

/* The size that the step's file may grow to. */
static uint64_t size_limit(const struct model *model, const struct node *node)
{
	uint64_t limit = node->file.size + (model->max_bytes - model->bytes);

	return limit < FILE_MAX ? limit : FILE_MAX;
}

static void plan_write(const struct model *model, struct step *step, struct rng *rng)
{
	uint64_t size = step->node->file.size, limit = size_limit(model, step->node);
	bool aligned = rng_below(rng, 4) == 0;

	step->length = draw_length(rng);
	if (step->kind == STEP_APPEND)
		step->offset = size;
	else if (rng_below(rng, 8) == 0)
		step->offset = size + rng_below(rng, 16 * 1024);
	else
		step->offset = rng_below(rng, size + 1);
	if (step->kind == STEP_WRITE && aligned) {
		step->offset &= ~4095ull;
		step->length = (step->length + 4095) & ~4095ull;
	}
	if (step->offset >= limit)
		plan_shrink(step, rng);
	else if (step->offset + step->length > limit)
		step->length = limit - step->offset;
}

static void plan_truncate(const struct model *model, struct step *step, struct rng *rng)
{
	uint64_t size = step->node->file.size, limit = size_limit(model, step->node);
	uint64_t way = rng_below(rng, 4), growth = draw_length(rng);

	if ((way == 0 || !size) && size < limit)
		step->offset = size + growth < limit ? size + growth : limit;
	else if (way == 1 && size)
		step->offset = 0;
	else
		plan_shrink(step, rng);
}

static void plan_read(struct step *step, struct rng *rng)
{
	uint64_t size = step->node->file.size;
	bool whole = rng_below(rng, 2) == 0;

	step->offset = whole || !size ? 0 : rng_below(rng, size);
	step->length = whole || !size ? size : 1 + rng_below(rng, size - step->offset);
}

/* In the stead of what cannot be done. */
static bool plan_other_read(const struct model *model, struct step *step, struct rng *rng)
{
	if (!model->files.count)
		return false;
	*step = (struct step){ .number = step->number, .kind = STEP_READ, .node = draw_file(model, rng) };
	plan_read(step, rng);
	return true;
}

static bool plan_rename_file(const struct model *model, struct step *step, struct rng *rng)
{
	struct node *victim = draw_file(model, rng);

	if (rng_below(rng, 3) == 0 && victim != step->node) {
		step->victim = victim;
		step->parent = victim->parent;
		strcpy(step->name, victim->name);
		return true;
	}
	return plan_new(model, step, rng, NODE_FILE);
}

static bool plan_rename(const struct model *model, struct step *step, struct rng *rng)
{
	size_t dirs = model->dirs.count;
	struct node *dir;

	step->node = draw_file(model, rng);
	if (dirs < 2 || rng_below(rng, 3) != 0)
		return plan_rename_file(model, step, rng);
	dir = model->dirs.node[1 + rng_below(rng, dirs - 1)];
	if (dir->pinned)
		return plan_rename_file(model, step, rng);
	step->node = dir;
	step->parent = draw_parent(model, rng, node_height(dir));
	if (step->parent && node_is_below(step->parent, dir))
		step->parent = dir->parent->closed ? NULL : dir->parent;
	draw_name(step, rng, NODE_DIR);
	return step->parent;
}

/* An empty directory; where there is none, a file is read in its stead, or made. */
static bool plan_rmdir(const struct model *model, struct step *step, struct rng *rng)
{
	size_t dirs = model->dirs.count - 1, start = rng_below(rng, dirs);

	for (size_t i = 0; i < dirs; i++) {
		step->node = model->dirs.node[1 + (start + i) % dirs];
		if (!step->node->children && !step->node->pinned)
			return true;
	}
	if (model->files.count)
		return plan_other_read(model, step, rng);
	step->kind = STEP_CREATE;
	step->node = NULL;
	return plan_new(model, step, rng, NODE_FILE);
}

bool step_plan(const struct model *model, struct step *step)
{
	struct rng rng = rng_start(model->seed, model->steps + 1);
	bool possible = true;

	*step = (struct step){ .number = model->steps + 1, .kind = draw_kind(model, &rng) };
	switch (step->kind) {
	case STEP_CREATE:
		possible = plan_new(model, step, &rng, NODE_FILE);
		break;
	case STEP_MKDIR:
		possible = plan_new(model, step, &rng, NODE_DIR);
		break;
	case STEP_RMDIR:
		possible = plan_rmdir(model, step, &rng);
		break;
	case STEP_RENAME:
		possible = plan_rename(model, step, &rng);
		break;
	case STEP_WRITE:
	case STEP_APPEND:
		step->node = draw_file(model, &rng);
		plan_write(model, step, &rng);
		break;
	case STEP_TRUNCATE:
		step->node = draw_file(model, &rng);
		plan_truncate(model, step, &rng);
		break;
	case STEP_READ:
		step->node = draw_file(model, &rng);
		plan_read(step, &rng);
		break;
	default:
		step->node = draw_file(model, &rng);
	}
	return possible || plan_other_read(model, step, &rng);
}

void step_change_file(const struct step *step, struct file *file)
{
	if (step->kind == STEP_TRUNCATE)
		file_resize(file, step->offset);
	else
		file_write(file, step->offset, step->length, step->number);
}

void step_apply(struct model *model, const struct step *step)
{
	switch (step->kind) {
	case STEP_CREATE:
		model_add(model, step->parent, step->name, NODE_FILE);
		break;
	case STEP_MKDIR:
		model_add(model, step->parent, step->name, NODE_DIR);
		break;
	case STEP_WRITE:
	case STEP_APPEND:
	case STEP_TRUNCATE:
		model->bytes -= step->node->file.size;
		step_change_file(step, &step->node->file);
		model->bytes += step->node->file.size;
		break;
	case STEP_RMDIR:
	case STEP_UNLINK:
		model_remove(model, step->node);
		break;
	case STEP_RENAME:
		if (step->victim)
			model_remove(model, step->victim);
		model_move(step->node, step->parent, step->name);
		break;
	default:
		break;
	}
	model->steps = step->number;
}

void step_fail(struct model *model, const struct step *step, const char *how)
{
	struct failure *failure;

	if (step->node)
		model_freeze(model, step->node);
	if (step->victim)
		model_freeze(model, step->victim);
	if (step->parent)
		model_close(step->parent);
	model->failure = grow(model->failure, model->failures + 1, sizeof(*failure));
	failure = &model->failure[model->failures++];
	failure->step = *step;
	snprintf(failure->how, sizeof(failure->how), "%s", how);
	model->steps = step->number;
}

void steps_replay(struct model *model, uint64_t steps, const struct failed_list *failed,
		  void (*before)(const struct step *step, void *context), void *context)
{
	const struct failed *next = failed->failed, *end = next + failed->count;
	struct step step;

	while (model->steps < steps) {
		if (!step_plan(model, &step))
			die(EXIT_USAGE, "no step %" PRIu64 " is possible after those that failed", step.number);
		if (before)
			before(&step, context);
		if (next < end && next->step == step.number)
			step_fail(model, &step, next++->how);
		else
			step_apply(model, &step);
	}
	if (next < end)
		die(EXIT_USAGE, "step %" PRIu64 " cannot have failed before it was begun", next->step);
}

void step_path(const struct step *step, char path[PATH_SIZE])
{
	if (step->node)
		node_path(step->node, path);
	else
		step_new_path(step, path);
}

void step_new_path(const struct step *step, char path[PATH_SIZE])
{
	size_t used;

	node_path(step->parent, path);
	used = strlen(path);
	snprintf(path + used, PATH_SIZE - used, "/%s", step->name);
}
