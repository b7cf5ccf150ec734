// SPDX-License-Identifier: Apache-2.0
#include "model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "content.h"
#include "util.h"

/*
 * Twins are made before the snapshot that all trials of a campaign start from,
 * when a trial's seed is not known yet: their content has a seed of its own.
 */
#define TWIN_SEED 0x7477696e73u
#define ATTRIBUTE_SEED 0x7861747472u
/* Above any step of a run, so that no twin holds what a step writes. */
#define TWIN_STEP (1ull << 63)

/* Where @name stands among the children, or would have to be put. */
static size_t child_position(const struct node *dir, const char *name)
{
	size_t low = 0, high = dir->children;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(dir->child[middle]->name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static void attach(struct node *parent, struct node *node, const char *name)
{
	size_t at = child_position(parent, name);

	snprintf(node->name, sizeof(node->name), "%s", name);
	node->parent = parent;
	if (parent->children == parent->room) {
		parent->room = parent->room * 2 + 4;
		parent->child = grow(parent->child, parent->room, sizeof(struct node *));
	}
	memmove(parent->child + at + 1, parent->child + at, (parent->children - at) * sizeof(struct node *));
	parent->child[at] = node;
	parent->children++;
}

static void detach(struct node *node)
{
	struct node *parent = node->parent;
	size_t at = child_position(parent, node->name);

	parent->children--;
	memmove(parent->child + at, parent->child + at + 1, (parent->children - at) * sizeof(struct node *));
}

static struct node *new_node(struct node *parent, const char *name, enum node_type type)
{
	struct node *node = grow(NULL, 1, sizeof(*node));

	memset(node, 0, sizeof(*node));
	node->type = type;
	if (parent)
		attach(parent, node, name);
	return node;
}

static void free_node(struct node *node)
{
	for (size_t i = 0; i < node->children; i++)
		free_node(node->child[i]);
	free(node->child);
	file_free(&node->file);
	free(node);
}

static void list_add(struct nodes *list, struct node *node)
{
	if (list->count == list->room) {
		list->room = list->room * 2 + 16;
		list->node = grow(list->node, list->room, sizeof(struct node *));
	}
	node->slot = list->count;
	list->node[list->count++] = node;
}

static void list_remove(struct nodes *list, struct node *node)
{
	struct node *last = list->node[--list->count];

	list->node[node->slot] = last;
	last->slot = node->slot;
}

static void add_twins(struct node *root, unsigned int twins, unsigned int most)
{
	struct node *dir = new_node(root, "twins", NODE_DIR);

	for (unsigned int i = 0; i < twins; i++) {
		struct rng rng = rng_start(TWIN_SEED, i);
		uint64_t size = 1 + rng_below(&rng, most);

		for (char copy = 'a'; copy <= 'b'; copy++) {
			char name[NAME_SIZE];
			struct node *node;

			snprintf(name, sizeof(name), "%03u.%c", i, copy);
			node = new_node(dir, name, NODE_FILE);
			node->twin = true;
			file_write(&node->file, 0, size, TWIN_STEP + i);
		}
	}
}

void model_init(struct model *model, uint64_t seed, uint64_t max_bytes, unsigned int twins, unsigned int twin_bytes)
{
	*model = (struct model){ .seed = seed, .max_bytes = max_bytes };
	model->root = new_node(NULL, ".", NODE_DIR);
	list_add(&model->dirs, new_node(model->root, "tree", NODE_DIR));
	add_twins(model->root, twins, twin_bytes);
}

void model_free(struct model *model)
{
	free_node(model->root);
	free(model->files.node);
	free(model->dirs.node);
	free(model->failure);
}

uint64_t model_seed_of(const struct model *model, const struct node *node)
{
	return node->twin ? TWIN_SEED : model->seed;
}

static uint64_t twin_number(const struct node *twin)
{
	return 2 * strtoul(twin->name, NULL, 10) + (strchr(twin->name, 'b') != NULL);
}

time_t model_mtime(const struct node *twin)
{
	return MTIME_BASE + (time_t)twin_number(twin);
}

/* No two twins have the same: a file system may keep equal values once. */
size_t model_attribute(const struct node *twin, unsigned int most, uint8_t value[ATTRIBUTE_MAX])
{
	uint64_t number = twin_number(twin);
	struct rng rng = rng_start(ATTRIBUTE_SEED, number);
	size_t size = 1 + rng_below(&rng, most);

	content_fill(ATTRIBUTE_SEED, number, 0, value, size);
	return size;
}

static struct nodes *list_of(struct model *model, enum node_type type)
{
	return type == NODE_FILE ? &model->files : &model->dirs;
}

void model_add(struct model *model, struct node *parent, const char *name, enum node_type type)
{
	list_add(list_of(model, type), new_node(parent, name, type));
}

void model_remove(struct model *model, struct node *node)
{
	model->bytes -= node->file.size;
	list_remove(list_of(model, node->type), node);
	detach(node);
	free_node(node);
}

void model_move(struct node *node, struct node *parent, const char *name)
{
	detach(node);
	attach(parent, node, name);
}

static void pin(struct node *dir)
{
	for (; dir; dir = dir->parent)
		dir->pinned = true;
}

static void forget_below(struct model *model, struct node *node)
{
	list_remove(list_of(model, node->type), node);
	for (size_t i = 0; i < node->children; i++)
		forget_below(model, node->child[i]);
}

void model_freeze(struct model *model, struct node *node)
{
	forget_below(model, node);
	pin(node->parent);
}

void model_close(struct node *dir)
{
	dir->closed = true;
	pin(dir);
}

void node_path(const struct node *node, char path[PATH_SIZE])
{
	const struct node *way[DEPTH_MAX + 1];
	size_t depth = 0, used = 0;

	strcpy(path, ".");
	for (; node->parent && depth <= DEPTH_MAX; node = node->parent)
		way[depth++] = node;
	while (depth--)
		used += (size_t)snprintf(path + used, PATH_SIZE - used, "%s%s", used ? "/" : "", way[depth]->name);
}

unsigned int node_depth(const struct node *node)
{
	unsigned int depth = 0;

	for (; node->parent; node = node->parent)
		depth++;
	return depth;
}

unsigned int node_height(const struct node *node)
{
	unsigned int height = 0;

	for (size_t i = 0; i < node->children; i++) {
		unsigned int below = 1 + node_height(node->child[i]);

		if (below > height)
			height = below;
	}
	return height;
}

bool node_is_below(const struct node *node, const struct node *ancestor)
{
	for (; node; node = node->parent)
		if (node == ancestor)
			return true;
	return false;
}
