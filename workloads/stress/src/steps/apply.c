// SPDX-License-Identifier: Apache-2.0
/* What a step does to the model. */
#include <stdlib.h>
#include <string.h>

#include "step.h"

static void set_pattern(struct model *model, struct node *node, const struct step *step)
{
	unsigned char *bytes = need(malloc((size_t)step->length));

	pattern(step->seed, 0, bytes, (size_t)step->length);
	data_set(model, node, step->offset, bytes, (size_t)step->length);
	free(bytes);
}

static void copy(struct model *model, struct node *node, const struct step *step)
{
	unsigned char *bytes = need(malloc((size_t)step->length));

	data_get(&model->nodes[step->other], step->from, bytes, (size_t)step->length);
	data_set(model, node, step->offset, bytes, (size_t)step->length);
	free(bytes);
}

static off_t smaller(off_t a, off_t b)
{
	return a < b ? a : b;
}

static void change_data(struct model *model, const struct step *step)
{
	struct node *node = &model->nodes[step->node];
	off_t end = step->offset + step->length;

	switch (step->operation) {
	case SENDFILE:
	case COPY:
		copy(model, node, step);
		break;
	case ALLOCATE:
		if (end > node->size)
			data_resize(model, node, end);
		break;
	case ALLOCATE_KEEP:
		break;
	case PUNCH:
	case ZERO_KEEP:
		data_zero(model, node, step->offset, smaller(end, node->size) - step->offset);
		break;
	case ZERO:
		if (end > node->size)
			data_resize(model, node, end);
		data_zero(model, node, step->offset, step->length);
		break;
	case COLLAPSE:
		data_collapse(model, node, step->offset, step->length);
		break;
	case INSERT:
		data_insert(node, step->offset, step->length);
		break;
	case SHRINK:
	case GROW:
		data_resize(model, node, step->length);
		break;
	default:
		set_pattern(model, node, step);
	}
}

static void make(struct model *model, const struct step *step)
{
	static const enum type types[OPERATIONS] = {
		[CREATE] = REGULAR, [UNNAMED] = REGULAR, [FILL] = REGULAR,
		[MKDIR] = DIRECTORY, [SYMBOLIC] = SYMLINK, [MKFIFO] = FIFO,
	};
	struct node *node = &model->nodes[step->node];

	*node = (struct node){ .type = types[step->operation], .mode = step->value };
	if (node->type == REGULAR)
		node->limit = (off_t)step->second;
	if (node->type == SYMLINK) {
		node->mode = 0777;
		strcpy(node->target, step->text);
	}
	model_link(model, step->new_name, step->directory, step->text, step->node);
	if (step->operation == UNNAMED)
		set_pattern(model, node, step);
	if (node->type == DIRECTORY && !model->big) {
		model->big = step->node;
		model->filling = true;
	}
}

static void move(struct model *model, const struct step *step)
{
	struct name *name = &model->names[step->name];

	name->parent = step->directory;
	strcpy(name->text, step->text);
}

static void exchange(struct model *model, const struct step *step)
{
	int node = model->names[step->name].node;

	model->names[step->name].node = model->names[step->other_name].node;
	model->names[step->other_name].node = node;
}

static void replace(struct model *model, const struct step *step)
{
	int node = model->names[step->name].node;

	model->nodes[node].links++; /* or the model would forget it */
	model_unlink(model, step->name);
	model_unlink(model, step->other_name);
	model_link(model, step->other_name, step->directory, step->text, node);
	model->nodes[node].links--;
}

static void change_names(struct model *model, const struct step *step)
{
	switch (step->operation) {
	case LINK:
		model_link(model, step->new_name, step->directory, step->text, step->node);
		break;
	case UNLINK:
	case DRAIN:
	case RMDIR:
		model_unlink(model, step->name);
		break;
	case MOVE:
		move(model, step);
		break;
	case REPLACE:
		replace(model, step);
		break;
	case EXCHANGE:
		exchange(model, step);
		break;
	default:
		make(model, step);
	}
	if (step->operation == FILL && model_children(model, model->big) >= BIG_DIRECTORY)
		model->filling = false;
	if (step->operation == DRAIN && model_children(model, model->big) == 0)
		model->filling = true;
}

static void change_attributes(struct model *model, const struct step *step)
{
	struct node *node = &model->nodes[step->node];

	switch (step->operation) {
	case CHMOD:
		node->mode = step->value;
		break;
	case CHOWN:
		node->uid = step->value;
		node->gid = step->second;
		break;
	case SET_ACL:
		node->mode = step->value;
		node->acl = step_acl(step);
		break;
	case REMOVE_ACL:
		node->acl = (struct acl){ 0 };
		break;
	case SET_XATTR:
		node->xattrs[step->value] = (struct xattr){ step->seed, (size_t)step->length };
		break;
	case REMOVE_XATTR:
		node->xattrs[step->value] = (struct xattr){ 0 };
		break;
	case FLAG:
		node->flag = (int)step->value;
		break;
	case UNFLAG:
		node->flag = 0;
		break;
	default: /* times are taken from the log */
		break;
	}
}

void step_apply(struct model *model, const struct step *step)
{
	if (step->operation < CREATE)
		change_data(model, step);
	else if (step->operation < CHMOD)
		change_names(model, step);
	else
		change_attributes(model, step);
}

bool step_mixes(const struct step *step)
{
	switch (step->operation) {
	case COLLAPSE:
	case INSERT:
	case SHRINK:
	case GROW:
		return false;
	default:
		return step->operation < CREATE;
	}
}
