// SPDX-License-Identifier: Apache-2.0
/* Which step comes next. */
#include <err.h>
#include <stdio.h>
#include <string.h>

#include "step.h"

/* In pages: stage 0, where the model judges, has little memory. */
#define MAX_ALLOCATED 5120
#define MAX_NODES_BESIDE 90 /* beside the big directory's */
#define SMALL (768L << 10)
#define LARGE (40L << 20)
#define MAX_DEPTH 6

const char *const operation_names[OPERATIONS] = {
	"write", "append", "writev", "store", "direct", "io_uring", "splice", "sendfile", "copy_file_range",
	"fallocate", "fallocate keep", "punch", "zero", "zero keep", "collapse", "insert", "shrink", "grow",
	"create", "unnamed", "mkdir", "symlink", "mkfifo", "link", "unlink", "rmdir", "move", "replace", "exchange",
	"fill", "drain", "chmod", "chown", "times", "set xattr", "remove xattr", "set acl",
	"remove acl", "flag", "unflag",
};

static const int weights[OPERATIONS] = {
	[WRITE] = 30, [APPEND] = 10, [WRITEV] = 10, [STORE] = 30, [DIRECT] = 10, [URING] = 10, [SPLICE] = 10,
	[SENDFILE] = 10, [COPY] = 10, [ALLOCATE] = 6, [ALLOCATE_KEEP] = 4, [PUNCH] = 10, [ZERO] = 6,
	[ZERO_KEEP] = 4, [COLLAPSE] = 6, [INSERT] = 6, [SHRINK] = 8, [GROW] = 8, [CREATE] = 20, [UNNAMED] = 6,
	[MKDIR] = 8, [SYMBOLIC] = 6, [MKFIFO] = 3, [LINK] = 8, [UNLINK] = 20, [RMDIR] = 6, [MOVE] = 14,
	[REPLACE] = 8, [EXCHANGE] = 8, [FILL] = 250, [DRAIN] = 250, [CHMOD] = 6, [CHOWN] = 6, [TIMES] = 6,
	[SET_XATTR] = 10, [REMOVE_XATTR] = 4, [SET_ACL] = 8, [REMOVE_ACL] = 3, [FLAG] = 3, [UNFLAG] = 8,
};

struct random {
	uint64_t state;
};

static uint64_t draw(struct random *random, uint64_t below)
{
	random->state = mix(random->state);
	return random->state % below;
}

/* Filters of nodes. */
static bool is_plain(const struct model *model, int n)
{
	return model->nodes[n].type == REGULAR && !model->nodes[n].flag && model->nodes[n].limit;
}

static bool has_data(const struct model *model, int n)
{
	return model->nodes[n].type == REGULAR && model->nodes[n].size;
}

static bool takes_appends(const struct model *model, int n)
{
	return model->nodes[n].type == REGULAR && model->nodes[n].flag != 'i' && model->nodes[n].limit;
}

static bool is_flagged(const struct model *model, int n)
{
	return model->nodes[n].flag;
}

static bool is_there(const struct model *model, int n)
{
	const struct node *node = &model->nodes[n];

	/* The big directory's files are left empty. */
	return (node->type != REGULAR || node->limit) && !node->flag && n != ROOT;
}

static bool takes_mode(const struct model *model, int n)
{
	return is_there(model, n) && model->nodes[n].type != SYMLINK;
}

/* With an ACL it is two operations of ext4: a reset may come between mode and mask. */
static bool takes_chmod(const struct model *model, int n)
{
	return takes_mode(model, n) && !model->nodes[n].acl.set;
}

static bool has_acl(const struct model *model, int n)
{
	return takes_mode(model, n) && model->nodes[n].acl.set;
}

static bool takes_xattrs(const struct model *model, int n)
{
	return is_there(model, n) && (model->nodes[n].type == REGULAR || model->nodes[n].type == DIRECTORY);
}

static bool takes_links(const struct model *model, int n)
{
	return is_there(model, n) && model->nodes[n].type != DIRECTORY && model->nodes[n].links < 40;
}

static int depth(const struct model *model, int node)
{
	int count = 0;

	for (; node != ROOT; count++)
		node = model->names[model_name_of(model, node)].parent;
	return count;
}

static bool takes_names(const struct model *model, int n)
{
	return model->nodes[n].type == DIRECTORY && (n == ROOT || n != model->big) && depth(model, n) < MAX_DEPTH;
}

/* A node that passes the filter, each as likely; -1: none does. */
static int some_node(const struct model *model, struct random *random,
		     bool (*filter)(const struct model *, int))
{
	int found = -1;
	uint64_t count = 0;

	for (int n = 0; n < MAX_NODES; n++)
		if (model->nodes[n].type != NOTHING && filter(model, n) && draw(random, ++count) == 0)
			found = n;
	return found;
}

/* A name outside the big directory (or in it, if `big`) of a node that is a directory or not. */
static int some_name(const struct model *model, struct random *random, bool directory, bool big)
{
	int found = -1;
	uint64_t count = 0;

	for (int n = 0; n < model->last_name; n++) {
		const struct name *name = &model->names[n];

		if (name->node < 0 || (model->big && name->parent == model->big) != big || name->node == model->big)
			continue;
		if ((model->nodes[name->node].type == DIRECTORY) != directory || model->nodes[name->node].flag)
			continue;
		if (draw(random, ++count) == 0)
			found = n;
	}
	return found;
}

static off_t aligned(off_t offset)
{
	return offset / PAGE * PAGE;
}

/* Lengths of a few bytes, of some pages, and of many, each as likely. */
static off_t some_length(struct random *random)
{
	static const uint64_t most[] = { 100, 3 * PAGE, 64 << 10, MAX_LENGTH };

	return (off_t)draw(random, most[draw(random, 4)]) + 1;
}

/* Where in a file: mostly where something is. */
static off_t some_offset(const struct node *node, struct random *random)
{
	uint64_t most = draw(random, 4) && node->size ? (uint64_t)node->size : (uint64_t)node->limit;

	return (off_t)draw(random, most);
}

static bool place(const struct model *model, struct random *random, struct step *step)
{
	const struct node *node = &model->nodes[step->node];

	step->offset = some_offset(node, random);
	step->length = some_length(random);
	if (step->operation == DIRECT || step->operation == COLLAPSE || step->operation == INSERT) {
		step->offset = aligned(step->offset);
		step->length = aligned(step->length) + PAGE;
	}
	if (step->operation == APPEND)
		step->offset = node->size;
	return step->offset + step->length <= node->limit;
}

static bool copies(const struct model *model, struct random *random, struct step *step)
{
	step->other = some_node(model, random, has_data);
	if (step->other < 0 || step->other == step->node)
		return false;
	step->from = (off_t)draw(random, (uint64_t)model->nodes[step->other].size);
	if (step->from + step->length > model->nodes[step->other].size)
		step->length = model->nodes[step->other].size - step->from;
	return true;
}

static bool plan_data(const struct model *model, struct random *random, struct step *step)
{
	const struct node *node;

	step->node = some_node(model, random, step->operation == APPEND ? takes_appends : is_plain);
	if (step->node < 0 || !place(model, random, step))
		return false;
	node = &model->nodes[step->node];
	step->touched[0] = step->node;
	switch (step->operation) {
	case SENDFILE:
	case COPY:
		return copies(model, random, step);
	case PUNCH:
	case ZERO_KEEP:
		return step->offset < node->size;
	case COLLAPSE:
		return step->offset + step->length < node->size;
	case INSERT:
		return step->offset < node->size && node->size + step->length <= node->limit;
	case SHRINK:
		step->length = node->size ? (off_t)draw(random, (uint64_t)node->size) : 0;
		return node->size;
	case GROW:
		step->length = node->size + (off_t)draw(random, (uint64_t)(node->limit - node->size) + 1);
		return step->length > node->size;
	default:
		return true;
	}
}

/* A new name; the number of the step makes it unique, its length differs. */
static bool new_name(const struct model *model, struct random *random, struct step *step)
{
	int length = snprintf(step->text, sizeof(step->text), "%lu.", step->number);
	int most = length + (int)draw(random, draw(random, 4) ? 12 : 120);

	for (; length < most; length++)
		step->text[length] = (char)('a' + length % 26);
	step->text[length] = '\0';
	step->new_name = model_free_name(model);
	step->touched[0] = step->directory;
	return step->directory >= 0 && step->new_name >= 0;
}

static int large_files(const struct model *model)
{
	int count = 0;

	for (int n = 0; n < MAX_NODES; n++)
		count += model->nodes[n].limit == LARGE;
	return count;
}

static int nodes_beside(const struct model *model)
{
	int count = 0;

	for (int n = 0; n < model->last_name; n++)
		count += model->names[n].node >= 0 && (!model->big || model->names[n].parent != model->big);
	return count;
}

static bool plan_new(const struct model *model, struct random *random, struct step *step)
{
	static const unsigned int modes[] = { 0644, 0600, 0755, 0400, 0, 0666 };

	step->node = model_free_node(model);
	step->directory = step->operation == FILL ? model->big : some_node(model, random, takes_names);
	step->value = step->operation == MKDIR ? 0755 : modes[draw(random, 6)];
	step->second = (unsigned int)(large_files(model) < 2 ? LARGE : SMALL);
	if (step->operation == FILL) {
		step->second = 0; /* it stays empty */
		if (!model->big || !model->filling)
			return false;
	} else if (nodes_beside(model) > MAX_NODES_BESIDE) {
		return false;
	}
	step->length = 1 + (off_t)draw(random, 3 * PAGE); /* of UNNAMED's content */
	step->touched[1] = step->node;
	return step->node >= 0 && new_name(model, random, step);
}

static bool plan_link(const struct model *model, struct random *random, struct step *step)
{
	step->node = some_node(model, random, takes_links);
	step->directory = some_node(model, random, takes_names);
	return step->node >= 0 && nodes_beside(model) <= MAX_NODES_BESIDE && new_name(model, random, step);
}

static bool plan_unlink(const struct model *model, struct random *random, struct step *step)
{
	bool drain = step->operation == DRAIN;

	if (drain && (!model->big || model->filling))
		return false;
	step->name = some_name(model, random, step->operation == RMDIR, drain);
	if (step->name < 0)
		return false;
	step->node = model->names[step->name].node;
	step->touched[0] = model->names[step->name].parent;
	return step->operation != RMDIR || !model_children(model, step->node);
}

static bool plan_move(const struct model *model, struct random *random, struct step *step)
{
	step->name = some_name(model, random, draw(random, 3) == 0, false);
	step->directory = some_node(model, random, takes_names);
	if (step->name < 0 || !new_name(model, random, step))
		return false;
	step->node = model->names[step->name].node;
	step->touched[1] = model->names[step->name].parent;
	step->touched[2] = step->node;
	return model->nodes[step->node].type != DIRECTORY || !model_inside(model, step->directory, step->node);
}

/* Of two names that are no directories, one replaces the other or they change places. */
static bool plan_pair(const struct model *model, struct random *random, struct step *step)
{
	bool directories = step->operation == EXCHANGE && draw(random, 3) == 0;
	const struct name *name, *other;

	step->name = some_name(model, random, directories, false);
	step->other_name = some_name(model, random, directories, false);
	if (step->name < 0 || step->other_name < 0)
		return false;
	name = &model->names[step->name];
	other = &model->names[step->other_name];
	step->node = name->node;
	step->directory = other->parent;
	strcpy(step->text, other->text);
	step->touched[0] = name->parent;
	step->touched[1] = other->parent;
	step->touched[2] = name->node;
	step->touched[3] = other->node;
	if (name->node == other->node) /* rename does nothing then */
		return false;
	return !directories ||
	       (!model_inside(model, name->node, other->node) && !model_inside(model, other->node, name->node));
}

static bool plan_attributes(const struct model *model, struct random *random, struct step *step)
{
	static bool (*const filters[OPERATIONS])(const struct model *, int) = {
		[CHMOD] = takes_chmod, [CHOWN] = is_there, [TIMES] = is_there, [SET_XATTR] = takes_xattrs,
		[REMOVE_XATTR] = takes_xattrs, [SET_ACL] = takes_mode, [REMOVE_ACL] = has_acl, [FLAG] = is_plain,
		[UNFLAG] = is_flagged,
	};

	step->node = some_node(model, random, filters[step->operation]);
	if (step->node < 0)
		return false;
	step->value = (unsigned int)draw(random, 512);
	step->second = (unsigned int)draw(random, 70000);
	switch (step->operation) {
	case SET_XATTR:
	case REMOVE_XATTR:
		step->value %= XATTRS;
		step->length = (off_t)draw(random, MAX_XATTR);
		return step->operation == SET_XATTR || model->nodes[step->node].xattrs[step->value].seed;
	case FLAG:
		step->value = step->value % 2 ? 'a' : 'i';
		return true;
	case TIMES:
		step->touched[0] = step->node;
		return true;
	default:
		return true;
	}
}

static bool plan(const struct model *model, struct random *random, struct step *step)
{
	step->other = step->name = step->other_name = step->new_name = step->directory = -1;
	memset(step->touched, -1, sizeof(step->touched));
	switch (step->operation) {
	case LINK:
		return plan_link(model, random, step);
	case UNLINK:
	case RMDIR:
	case DRAIN:
		return plan_unlink(model, random, step);
	case MOVE:
		return plan_move(model, random, step);
	case REPLACE:
	case EXCHANGE:
		return plan_pair(model, random, step);
	default:
		if (step->operation < CREATE)
			return plan_data(model, random, step);
		return step->operation < CHMOD ? plan_new(model, random, step) : plan_attributes(model, random, step);
	}
}

static enum operation some_operation(const struct model *model, struct random *random)
{
	int total = 0, at;

	if (model->allocated > MAX_ALLOCATED)
		return SHRINK;
	for (int n = 0; n < OPERATIONS; n++)
		total += weights[n];
	at = (int)draw(random, (uint64_t)total);
	for (int n = 0;; n++)
		if ((at -= weights[n]) < 0)
			return (enum operation)n;
}

struct acl step_acl(const struct step *step)
{
	return (struct acl){
		.set = true,
		.uid = step->second,
		.permissions = (unsigned int)(step->seed >> 8) % 8,
		.group = (unsigned int)(step->seed >> 16) % 8,
	};
}

struct step step_draw(const struct model *model, uint64_t seed, unsigned long number)
{
	struct random random = { mix(seed) ^ mix(number) };
	struct step step = { .number = number, .seed = mix(seed ^ number) | 1 };

	for (int tries = 0; tries < 10000; tries++) {
		/* The first directory becomes the big one. */
		step.operation = number == 1 ? MKDIR : some_operation(model, &random);
		if (plan(model, &random, &step))
			return step;
	}
	errx(1, "step %lu: the model is in a state that no step can change", number);
}
