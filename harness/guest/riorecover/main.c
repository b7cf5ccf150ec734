/* SPDX-License-Identifier: Apache-2.0 */
/*
 * riorecover: put the file cache of a crashed kernel back on disk.
 *
 * The order is that of Rio's warm reboot (Chen et al., ASPLOS 1996, section
 * 2.2): old memory to the swap partition, metadata to its disk addresses, then
 * the check of the file system, then file data through ordinary system calls.
 * If anything interrupts it, the next run does all of it again.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "options.h"
#include "report.h"
#include "save.h"
#include "step.h"

enum { EXIT_ENVIRONMENT = 1 };

/* The memory that is recovered, and its source. */
struct source {
	struct memory memory;	/* of the crashed kernel */
	struct save save;	/* of an earlier run; open if it is used */
	struct memory *used;	/* one of the two */
	struct registry registry;
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Opens the registry and collects what belongs to the device. */
static int read_registry(const struct options *o, const struct device *device,
			 struct source *source, enum registry_verdict *verdict)
{
	uint32_t dev;

	/* Of what cannot be read, nobody knows whether it was a registry. */
	if (source->used == &source->memory && o->start < source->memory.limit &&
	    !memory_at(source->used, o->start, 1)) {
		fprintf(stderr, "riorecover: %s: the registry at %#llx cannot be read\n",
			o->memory, (unsigned long long)o->start);
		return -EIO;
	}
	*verdict = registry_open(&source->registry, source->used, o->start, o->size);
	if (*verdict != REGISTRY_VALID)
		return 0;
	dev = registry_find_fs(&source->registry, device->uuid);
	if (!dev) {
		fprintf(stderr, "riorecover: %s: its file system is not in the registry: cold start\n",
			o->device);
		*verdict = REGISTRY_NONE;
		return 0;
	}
	return registry_collect(&source->registry, source->used, dev, device->blocks);
}

/*
 * Opens the registry in memory or, if memory has lost it, the saved one. A registry in
 * memory, recovered or not, is never older than a save.
 */
static int find_registry(const struct options *o, const struct device *device,
			 struct source *source, struct report *report)
{
	const struct rio_header *found = &source->registry.header;

	source->used = &source->memory;
	if (read_registry(o, device, source, &report->verdict))
		return EXIT_ENVIRONMENT;
	if (!o->save || report->verdict == REGISTRY_VALID)
		return 0;
	if (found->magic)
		return registry_is_recovered(&source->registry) && save_forget(o->save) ?
		       EXIT_ENVIRONMENT : 0;
	if (!save_open(&source->save, o->save, device->uuid))
		return 0;
	fprintf(stderr, "riorecover: %s: recovering from the memory saved there\n", o->save);
	source->used = &source->save.memory;
	report->from_save = true;
	report->refused = source->save.refused;
	return read_registry(o, device, source, &report->verdict) ? EXIT_ENVIRONMENT : 0;
}

/*
 * Prints each phase when it begins, on standard output if the report goes elsewhere. In
 * stage 0 that is the console, which then shows the phase that a reset interrupted.
 */
static void say_phase(const struct options *o, const char *phase)
{
	if (!o->report)
		return;
	printf("riorecover: %s\n", phase);
	fflush(stdout);
}

static int write_report(const struct options *o, const struct report *report)
{
	FILE *out = o->report ? fopen(o->report, "w") : stdout;

	if (!out) {
		fprintf(stderr, "riorecover: %s: %s\n", o->report, strerror(errno));
		return EXIT_ENVIRONMENT;
	}
	report_print(out, report);
	if (o->report ? fclose(out) : fflush(out)) {
		fprintf(stderr, "riorecover: report: %s\n", strerror(errno));
		return EXIT_ENVIRONMENT;
	}
	return 0;
}

/* Last: a crash at any earlier point only repeats the recovery. */
static int mark_recovered(const struct options *o, struct source *source)
{
	/* The save first: once the registry is gone, the save would be trusted. */
	if (o->save && save_forget(o->save))
		return EXIT_ENVIRONMENT;
	if (source->used != &source->memory)
		return 0;
	return registry_mark_recovered(&source->registry, &source->memory) ?
	       EXIT_ENVIRONMENT : 0;
}

/* Old memory to the save, metadata to the device. */
static int restore_blocks(const struct options *o, struct source *source,
			  struct device *device, struct report *report)
{
	double start = now();

	if (o->save && source->used == &source->memory) {
		say_phase(o, "save");
		save_write(o->save, &source->registry, source->used, device->uuid,
			   &report->saved);
	}
	report->seconds_save = now() - start;

	start = now();
	say_phase(o, "metadata");
	if (restore_metadata(&source->registry, source->used, device, &report->metadata))
		return EXIT_ENVIRONMENT;
	report->seconds_metadata = now() - start;
	return 0;
}

static int check(const struct options *o, struct report *report)
{
	double start = now();

	say_phase(o, "e2fsck");
	if (!strcmp(o->type, FS_EXT4))
		report->e2fsck_status = check_file_system(o->e2fsck, o->device, o->fsck_log);
	else
		report->e2fsck_status = replay_and_check(o->device, o->type, o->mount_point,
							 o->check, o->repair, o->fsck_log);
	report->seconds_e2fsck = now() - start;
	if (report->e2fsck_status >= 0)
		return 0;
	fprintf(stderr, "riorecover: %s: %s\n", strcmp(o->type, FS_EXT4) ? o->check : o->e2fsck,
		strerror(-report->e2fsck_status));
	return EXIT_ENVIRONMENT;
}

/* Everything between the registry and the report; report says how far it got. */
static int recover(const struct options *o, struct source *source,
		   struct device *device, struct report *report)
{
	bool warm = report->verdict == REGISTRY_VALID;
	double start;

	if (warm && restore_blocks(o, source, device, report))
		return EXIT_ENVIRONMENT;
	/* e2fsck needs exclusive access to the device. */
	if (o->has_registry)
		close(device->fd);
	if (check(o, report))
		return EXIT_ENVIRONMENT;

	start = now();
	say_phase(o, "data");
	report->mount_error = -mount_file_system(o->device, o->type, o->mount_point);
	if (report->mount_error || !warm)
		return 0; /* a result: the file system is lost, or nothing was in memory */
	if (restore_data(&source->registry, source->used, o->mount_point, &report->data))
		return EXIT_ENVIRONMENT;
	report->seconds_data = now() - start;

	if (report->metadata.failed || report->data.failed) {
		fprintf(stderr, "riorecover: %s: not all could be written; the registry stays valid\n",
			o->device);
		return 0;
	}
	if (mark_recovered(o, source))
		return EXIT_ENVIRONMENT;
	say_phase(o, "done");
	return 0;
}

int main(int argc, char **argv)
{
	struct options o;
	struct source source = { 0 };
	struct report report = { .verdict = REGISTRY_NONE, .registry = &source.registry,
				 .e2fsck_status = -1, .mount_error = -1 };
	struct device device;
	int status = options_parse(argc, argv, &o);

	if (status)
		return status;
	report.saving = o.save;
	if (o.writing)
		say_phase(&o, "registry");
	if (o.has_registry) {
		status = device_open(&device, o.device, o.writing);
		/* A wrecked superblock is a result: e2fsck and mount will tell. */
		if (status == -EINVAL && o.writing)
			o.has_registry = false;
		else if (status)
			return EXIT_ENVIRONMENT;
	}
	if (o.has_registry) {
		if (memory_open(&source.memory, o.memory, o.limit, o.writing) ||
		    find_registry(&o, &device, &source, &report))
			return EXIT_ENVIRONMENT;
	}
	status = o.writing ? recover(&o, &source, &device, &report) : 0;
	if (!status)
		status = write_report(&o, &report);
	registry_close(&source.registry);
	if (o.has_registry)
		memory_close(&source.memory);
	if (report.from_save)
		save_close(&source.save);
	return status;
}
