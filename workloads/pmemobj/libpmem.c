// SPDX-License-Identifier: Apache-2.0
/*
 * libpmem alone: a mapped file, stores and flushes. Each slot has two places. What is new goes to the one that
 * is not in use, and then one store of 8 bytes makes it the one in use. The counter comes last.
 */
#include <errno.h>
#include <libpmem.h>
#include <string.h>

#include "api.h"

struct place {
	uint64_t word[WORDS_MOST];
};

/* A slot in use is words << 1 | the number of its place; 0 is an empty slot. */
static struct file {
	uint64_t steps;
	uint64_t slot[SLOTS];
	struct place place[SLOTS][2];
} *file;

static size_t mapped;
static int is_pmem;

static struct {
	const void *from;
	size_t length;
} late[OPERATIONS];
static unsigned int late_count;

static bool create(const char *path, size_t size)
{
	/* All zeros: no step, no object. */
	file = pmem_map_file(path, size, PMEM_FILE_CREATE | PMEM_FILE_EXCL, 0644, &mapped, &is_pmem);
	return file || api_failed(pmem_errormsg());
}

static bool open_file(const char *path, size_t size)
{
	(void)size;
	file = pmem_map_file(path, 0, 0, 0, &mapped, &is_pmem);
	return file || api_failed(pmem_errormsg());
}

static void close_file(void)
{
	pmem_unmap(file, mapped);
}

static uint64_t offset_of(const void *address)
{
	return (uint64_t)((const char *)address - (const char *)file);
}

static struct held held(unsigned int slot)
{
	uint64_t use = file->slot[slot], words = use >> 1;
	const uint64_t *word = file->place[slot][use & 1].word;

	if (!use)
		return (struct held){ 0 };
	if (!words || words > WORDS_MOST)
		return (struct held){ .wrong = true, .offset = offset_of(&file->slot[slot]) };
	return (struct held){ .object = true, .words = words, .word = word, .offset = offset_of(word) };
}

static bool read_file(struct contents *contents)
{
	*contents = (struct contents){ .steps = file->steps, .steps_offset = offset_of(&file->steps) };
	for (unsigned int i = 0; i < SLOTS; i++)
		contents->slot[i] = held(i);
	return true;
}

static bool flush(const void *from, size_t length)
{
	if (is_pmem)
		pmem_persist(from, length);
	else if (pmem_msync(from, length))
		return api_failed("msync");
	return true;
}

/* Writes what is new to the place that is not in use; returns the slot that makes it the one in use. */
static bool fill(const struct operation *operation, const struct model *model, enum bug bug, uint64_t *use)
{
	uint64_t other = !(file->slot[operation->slot] & 1);
	uint64_t *word = file->place[operation->slot][other].word;
	size_t length = operation->words * sizeof(*word);

	*use = operation->words << 1 | other;
	model_fill(word, operation->words, model->seed, model->steps + 1, operation->slot);
	if (operation->kind == KIND_ALLOC || bug == BUG_NONE)
		return flush(word, length);
	if (bug == BUG_LATE_FLUSH) {
		late[late_count].from = word;
		late[late_count++].length = length;
	}
	return true;
}

static bool apply(const struct model *model, const struct operation operations[OPERATIONS], enum bug bug)
{
	for (unsigned int i = 0; i < OPERATIONS; i++) {
		uint64_t *slot = &file->slot[operations[i].slot], use = 0;

		if (operations[i].kind != KIND_FREE && !fill(&operations[i], model, bug, &use))
			return false;
		*slot = use;
		if (!flush(slot, sizeof(*slot)))
			return false;
	}
	file->steps++;
	return flush(&file->steps, sizeof(file->steps));
}

static void flush_late(void)
{
	while (late_count) {
		late_count--;
		flush(late[late_count].from, late[late_count].length);
	}
}

const struct api api_libpmem = {
	.name = "libpmem", .create = create, .open = open_file, .close = close_file, .read = read_file, .held = held,
	.apply = apply, .flush_late = flush_late,
};
