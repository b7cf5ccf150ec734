/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Not in the guest: riorecover for a sweep over recovery. Each time it changes the registry, the folder STEPS gets a file
 * with the number of bytes that LOG, a log of the disk's writes, has by then, and with the registry.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "log.h"
#include "undo.h"

static void step(struct memory *memory, const struct registry *registry)
{
	static int number;
	char name[4096];
	struct stat log;
	uint64_t size = le64toh(registry->header.size), bytes;
	FILE *out;

	snprintf(name, sizeof(name), "%s/%06d", getenv("STEPS"), number++);
	out = fopen(name, "w");
	if (!out || stat(getenv("LOG"), &log))
		abort();
	bytes = (uint64_t)log.st_size;
	fwrite(&bytes, sizeof(bytes), 1, out);
	for (uint64_t at = 0; at < size; at += RIO_PAGE_SIZE)
		fwrite(memory_at(memory, registry->start + at, RIO_PAGE_SIZE), RIO_PAGE_SIZE, 1, out);
	fclose(out);
}

int __real_registry_set_phase(struct registry *registry, struct memory *memory, int fs, enum rio_phase phase);
int __wrap_registry_set_phase(struct registry *registry, struct memory *memory, int fs, enum rio_phase phase);
void __real_log_end(const struct operation_log *log, const struct registry *registry, struct memory *memory);
void __wrap_log_end(const struct operation_log *log, const struct registry *registry, struct memory *memory);
void __real_undo_commit(struct undo_log *undo);
void __wrap_undo_commit(struct undo_log *undo);
void __real_undo_end(struct undo_log *undo);
void __wrap_undo_end(struct undo_log *undo);

int __wrap_registry_set_phase(struct registry *registry, struct memory *memory, int fs, enum rio_phase phase)
{
	int err = __real_registry_set_phase(registry, memory, fs, phase);

	step(memory, registry);
	return err;
}

void __wrap_log_end(const struct operation_log *log, const struct registry *registry, struct memory *memory)
{
	__real_log_end(log, registry, memory);
	step(memory, registry);
}

void __wrap_undo_commit(struct undo_log *undo)
{
	__real_undo_commit(undo);
	step(undo->memory, undo->registry);
}

void __wrap_undo_end(struct undo_log *undo)
{
	__real_undo_end(undo);
	step(undo->memory, undo->registry);
}
