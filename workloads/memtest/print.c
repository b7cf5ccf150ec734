// SPDX-License-Identifier: Apache-2.0
/* Printing the model, and the steps that lead to it. */
#include <inttypes.h>
#include <stdio.h>

#include "commands.h"
#include "crc32c.h"
#include "json.h"
#include "model.h"
#include "steps.h"

static uint8_t content[FILE_MAX];

static uint32_t file_crc(const struct model *model, const struct node *node)
{
	file_read(&node->file, model_seed_of(model, node), 0, content, node->file.size);
	return crc32c(0, content, node->file.size);
}

static void print_entry_json(const struct model *model, const struct node *node, const char *path, bool first)
{
	printf("%s\n{\"path\": ", first ? "" : ",");
	json_string(stdout, path);
	if (node->type == NODE_DIR)
		printf(", \"type\": \"dir\"}");
	else
		printf(", \"type\": \"file\", \"size\": %" PRIu64 ", \"crc32c\": \"%08" PRIx32 "\"}", node->file.size,
		       file_crc(model, node));
}

/* All entries below @dir, a directory before what is in it. */
static void print_dir(const struct model *model, const struct node *dir, bool json)
{
	for (size_t i = 0; i < dir->children; i++) {
		const struct node *node = dir->child[i];
		char path[PATH_SIZE];

		node_path(node, path);
		if (json)
			print_entry_json(model, node, path, i == 0 && !dir->parent);
		else if (node->type == NODE_DIR)
			printf("dir %s\n", path);
		else
			printf("file %s %" PRIu64 " %08" PRIx32 "\n", path, node->file.size, file_crc(model, node));
		print_dir(model, node, json);
	}
}

int command_model(const struct options *options)
{
	struct model model;

	model_init(&model, options->seed, options->max_bytes, options->twins, options->twin_bytes);
	steps_replay(&model, options->steps, &options->failed, NULL, NULL);
	if (options->json)
		printf("{\"steps\": %" PRIu64 ", \"entries\": [", model.steps);
	print_dir(&model, model.root, options->json);
	if (options->json)
		printf("\n]}\n");
	model_free(&model);
	return 0;
}

static void print_step(const struct step *step, void *context)
{
	char path[PATH_SIZE];

	(void)context;
	printf("{\"step\": %" PRIu64 ", \"kind\": \"%s\", \"path\": ", step->number, step_names[step->kind]);
	step_path(step, path);
	json_string(stdout, path);
	if (step->kind == STEP_RENAME) {
		step_new_path(step, path);
		printf(", \"type\": \"%s\", \"to\": ", step->node->type == NODE_DIR ? "dir" : "file");
		json_string(stdout, path);
		printf(", \"replaces\": %s", step->victim ? "true" : "false");
	} else if (step->kind == STEP_TRUNCATE) {
		printf(", \"size\": %" PRIu64 ", \"old_size\": %" PRIu64, step->offset, step->node->file.size);
	} else if (step->kind == STEP_WRITE || step->kind == STEP_APPEND || step->kind == STEP_READ) {
		printf(", \"offset\": %" PRIu64 ", \"length\": %" PRIu64 ", \"old_size\": %" PRIu64, step->offset,
		       step->length, step->node->file.size);
	}
	printf("}\n");
}

int command_steps(const struct options *options)
{
	struct model model;

	model_init(&model, options->seed, options->max_bytes, 0, 0);
	steps_replay(&model, options->steps, &options->failed, print_step, NULL);
	model_free(&model);
	return 0;
}
