// SPDX-License-Identifier: Apache-2.0
#include "history.h"

#include <stdlib.h>
#include <string.h>

#include "util.h"

/* Where the name stands among those of the directory, or would have to be put. */
static size_t position(const struct object *dir, const char *name)
{
	size_t low = 0, high = dir->slots;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (strcmp(dir->slot[middle].name, name) < 0)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

struct slot *history_slot(const struct object *dir, const char *name)
{
	size_t at = position(dir, name);

	return at < dir->slots && !strcmp(dir->slot[at].name, name) ? &dir->slot[at] : NULL;
}

static struct object *add_object(struct history *history, enum node_type type)
{
	struct object *object = grow(NULL, 1, sizeof(*object));

	*object = (struct object){ .type = type };
	history->object = grow(history->object, history->objects + 1, sizeof(object));
	history->object[history->objects++] = object;
	return object;
}

static void add_event(struct slot *slot, struct event event)
{
	slot->event = grow(slot->event, slot->events + 1, sizeof(event));
	slot->event[slot->events++] = event;
}

static struct slot *add_slot(struct object *dir, const char *name, struct object *first)
{
	size_t at = position(dir, name);
	struct slot *slot;

	dir->slot = grow(dir->slot, dir->slots + 1, sizeof(*slot));
	slot = &dir->slot[at];
	memmove(slot + 1, slot, (dir->slots++ - at) * sizeof(*slot));
	*slot = (struct slot){ 0 };
	strcpy(slot->name, name);
	add_event(slot, (struct event){ 0, first, true });
	return slot;
}

static void set_name(struct object *dir, const char *name, struct event event)
{
	struct slot *slot = history_slot(dir, name);

	add_event(slot ? slot : add_slot(dir, name, NULL), event);
	if (event.object && event.sure)
		event.object->dir = dir;
}

static void add_nodes(struct history *history, struct object *dir, const struct node *node)
{
	for (size_t i = 0; i < node->children; i++) {
		const struct node *child = node->child[i];
		struct object *object = add_object(history, child->type);

		object->twin = child->twin ? child : NULL;
		object->dir = dir;
		add_slot(dir, child->name, object);
		add_nodes(history, object, child);
	}
}

/* A change that may not have happened is never known to be durable. */
static void sync_content(struct object *file)
{
	file->synced = file->changes;
	while (file->synced && !file->change[file->synced - 1].sure)
		file->synced--;
}

static void sync_names(struct object *dir, uint64_t step)
{
	dir->names_synced = step;
	for (size_t i = 0; i < dir->slots; i++) {
		const struct slot *slot = &dir->slot[i];
		struct object *object = slot->event[slot->events - 1].object;

		if (object)
			object->named_durably = true;
	}
}

static void sync_all(struct history *history, uint64_t step)
{
	for (size_t i = 0; i < history->objects; i++) {
		sync_content(history->object[i]);
		sync_names(history->object[i], step);
	}
}

void history_init(struct history *history, const struct model *model, const struct options *options)
{
	const struct failed_list *failed = &options->failed;

	*history = (struct history){ .failed = failed->failed, .failed_end = failed->failed + failed->count,
				     .oldest = options->oldest, .fsync_every = options->fsync_every };
	add_nodes(history, add_object(history, NODE_DIR), model->root);
	sync_all(history, 0);
}

/* The object that @node is: what its name stands for. */
static struct object *object_of(const struct history *history, const struct node *node)
{
	const struct slot *slot;
	size_t last;

	if (!node->parent)
		return history->object[0];
	slot = history_slot(object_of(history, node->parent), node->name);
	for (last = slot->events - 1; !slot->event[last].sure; last--)
		;
	return slot->event[last].object;
}

/* What the step makes of names: @object leaves @from, if that is not NULL, and comes to @to. */
static void add_names(const struct history *history, const struct step *step, struct object *object,
		      struct object *from, struct object *to, bool sure)
{
	/* A removal that is not sure leaves what need not be anywhere, too. */
	if (step->victim)
		object_of(history, step->victim)->dir = NULL;
	if (from)
		set_name(from, step->node->name, (struct event){ step->number, NULL, sure });
	if (from && !to)
		object->dir = NULL;
	if (to)
		set_name(to, step->name, (struct event){ step->number, object, sure });
}

static void add_change(struct object *file, const struct step *step, bool sure)
{
	file->change = grow(file->change, file->changes + 1, sizeof(*file->change));
	file->change[file->changes++] = (struct change){ step->number, step->offset, step->length,
							 step->kind == STEP_TRUNCATE, sure };
}

/* What run makes durable of a step that it syncs (act.c). */
static void sync_step(const struct step *step, struct object *object, struct object *from, struct object *to)
{
	if (step->kind == STEP_READ)
		return;
	if (object->type == NODE_FILE && step->kind != STEP_RENAME && step->kind != STEP_UNLINK)
		sync_content(object);
	if (object->type == NODE_DIR && step->kind != STEP_RMDIR)
		sync_names(object, step->number);
	if (to)
		sync_names(to, step->number);
	if (from)
		sync_names(from, step->number);
}

static void add_step(struct history *history, const struct step *step, bool sure)
{
	bool moves = step->kind == STEP_RENAME || step->kind == STEP_UNLINK || step->kind == STEP_RMDIR;
	bool makes = step->kind == STEP_CREATE || step->kind == STEP_MKDIR;
	struct object *to = step->parent ? object_of(history, step->parent) : NULL;
	struct object *from = moves ? object_of(history, step->node->parent) : NULL;
	struct object *object = makes ? add_object(history, step->kind == STEP_MKDIR ? NODE_DIR : NODE_FILE)
				      : object_of(history, step->node);

	if (makes || moves)
		add_names(history, step, object, from, to, sure);
	else if (step->kind != STEP_READ)
		add_change(object, step, sure);
	if (sure && history->fsync_every && step->number % history->fsync_every == 0)
		sync_step(step, object, from, to);
}

void history_before(const struct step *step, void *context)
{
	struct history *history = context;
	bool failed = history->failed < history->failed_end && history->failed->step == step->number;

	if (step->number == history->oldest + 1)
		sync_all(history, history->oldest);
	history->failed += failed;
	add_step(history, step, !failed);
}

void history_in_flight(struct history *history, const struct step *step)
{
	add_step(history, step, false);
}

size_t slot_first(const struct object *dir, const struct slot *slot)
{
	size_t first = slot->events - 1;

	while (first && (slot->event[first].step > dir->names_synced || !slot->event[first].sure))
		first--;
	return first;
}

bool history_must_be(const struct history *history, const struct object *object)
{
	for (; object->dir; object = object->dir)
		if (!object->named_durably)
			return false;
	return object == history->object[0];
}

void history_free(struct history *history)
{
	for (size_t i = 0; i < history->objects; i++) {
		struct object *object = history->object[i];

		for (size_t k = 0; k < object->slots; k++)
			free(object->slot[k].event);
		free(object->slot);
		free(object->change);
		free(object);
	}
	free(history->object);
}
