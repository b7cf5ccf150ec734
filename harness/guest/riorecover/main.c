/* SPDX-License-Identifier: Apache-2.0 */
/*
 * riorecover: put the file cache of a crashed kernel back on disk.
 *
 * The order is that of Rio's warm reboot (Chen et al., ASPLOS 1996, section
 * 2.2): old memory to the swap partition, metadata to its disk addresses, then
 * the check of the file system, then file data through ordinary system calls.
 * If anything interrupts it, the next run does all of it again.
 */
#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cache.h"
#include "log.h"
#include "options.h"
#include "report.h"
#include "restore.h"
#include "save.h"
#include "step.h"
#include "undo.h"

enum { EXIT_ENVIRONMENT = 1, EXIT_INCOMPLETE = 3, EXIT_NO_PROGRAM = 4 };

/* The memory that is recovered, and its source. */
struct source {
	struct memory memory;	/* of the crashed kernel */
	struct save save;	/* of an earlier run; open if it is used */
	struct memory *used;	/* one of the two */
	struct cache cache;	/* what it has for the device */
};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Of what cannot be read, nobody knows whether it was a registry. */
static bool registry_can_be_read(const struct options *o, struct memory *memory)
{
	if (o->start >= memory->limit || memory_at(memory, o->start, 1))
		return true;
	fprintf(stderr, "riorecover: %s: the registry at %#llx cannot be read\n",
		o->memory, (unsigned long long)o->start);
	return false;
}

/*
 * Reads what memory has for the device or, if memory has lost its registry, the save. A registry
 * in memory, recovered or not, is never older than a save.
 */
static int find_cache(const struct options *o, const struct device *device,
		      struct source *source, struct report *report)
{
	struct cache *cache = &source->cache;

	source->used = &source->memory;
	if (!registry_can_be_read(o, &source->memory) ||
	    cache_read(cache, source->used, o->start, o->size, device, o->device, o->listed))
		return EXIT_ENVIRONMENT;
	cache_drop_if_older(cache, device, o->device);
	if (!o->save || cache->verdict == REGISTRY_VALID)
		return 0;
	if (cache->registry.header.magic)
		return cache_is_recovered(cache) && save_forget(o->save) ? EXIT_ENVIRONMENT : 0;
	if (!save_open(&source->save, o->save))
		return 0;
	fprintf(stderr, "riorecover: %s: recovering from the memory saved there\n", o->save);
	source->used = &source->save.memory;
	report->from_save = true;
	report->refused = source->save.refused;
	return cache_read(cache, source->used, o->start, o->size, device, o->device, o->listed) ?
	       EXIT_ENVIRONMENT : 0;
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
	return registry_set_phase(&source->cache.registry, &source->memory, source->cache.fs, RIO_RECOVERED) ?
	       EXIT_ENVIRONMENT : 0;
}

/*
 * What an earlier run has restored stays, but for the file that it was restoring: of that the metadata is as it was
 * before.
 */
static int undo_file(struct source *source, struct device *device, struct report *report)
{
	return restore_undone(&source->cache, source->used, device, &report->metadata) ? EXIT_ENVIRONMENT : 0;
}

/* Old memory to the save, metadata to the device. */
static int restore_blocks(const struct options *o, struct source *source,
			  struct device *device, struct report *report)
{
	double start = now();

	if (o->save && source->used == &source->memory) {
		say_phase(o, "save");
		save_write(o->save, &source->cache, source->used, &report->saved);
	}
	report->seconds_save = now() - start;

	start = now();
	say_phase(o, "metadata");
	if (restore_metadata(&source->cache, source->used, device, &report->metadata))
		return EXIT_ENVIRONMENT;
	report->seconds_metadata = now() - start;
	return 0;
}

static int check(const struct options *o, struct report *report)
{
	double start = now();
	const char *program = o->e2fsck;
	int err;

	say_phase(o, "e2fsck");
	if (!strcmp(o->type, FS_EXT4)) {
		err = check_file_system(o->e2fsck, o->device, o->fsck_log);
		report->e2fsck_status = err;
	} else {
		err = replay_and_check(o, &report->first_mount, &report->e2fsck_status);
		program = report->first_mount.error ? o->repair : o->check;
	}
	report->seconds_e2fsck = now() - start;
	if (err >= 0)
		return 0;
	fprintf(stderr, "riorecover: %s: %s\n", program ? program : o->device, strerror(-err));
	return err == -ENOENT ? EXIT_NO_PROGRAM : EXIT_ENVIRONMENT;
}

/* What memory says of itself, for people: a report is read by programs. */
static uint64_t say_damage(const struct options *o, const struct report *report)
{
	const struct cache *cache = report->cache;
	uint64_t rejected = cache->entries.counts.rejected + cache->log.counts.rejected;
	uint64_t inconsistent = cache->entries.counts.inconsistent + cache->log.counts.inconsistent;
	uint64_t corrupt = cache->entries.checksums.corrupt;

	if (rejected || inconsistent || corrupt || report->refused)
		fprintf(stderr, "riorecover: %s: memory is damaged: %llu entries and log pages rejected and %llu "
			"inconsistent, what they listed is not restored; %llu pages with a wrong checksum; "
			"%llu pages of the save refused\n", o->device, (unsigned long long)rejected,
			(unsigned long long)inconsistent, (unsigned long long)corrupt,
			(unsigned long long)report->refused);
	return rejected;
}

/* Has all that was listed been written? If not, the reason is told. */
static bool all_is_written(const struct options *o, const struct cache *cache,
			   const struct report *report)
{
	uint64_t unreadable = cache->entries.counts.unreadable + cache->log.counts.unreadable;

	if (!report->mount_error && !report->metadata.failed && !report->data.failed && !unreadable)
		return true;
	fprintf(stderr, "riorecover: %s: incomplete: %s; not written: %llu blocks, %llu pages of files; "
		"not read: %llu pages; the registry stays valid\n",
		o->device, report->mount_error ? "not mounted" : "mounted",
		(unsigned long long)report->metadata.failed, (unsigned long long)report->data.failed,
		(unsigned long long)unreadable);
	return false;
}

/*
 * Is all that the registry lists for other devices on disk, too? If its header is lost, nobody knows. If it is not,
 * the reason is told.
 */
static bool others_are_written(const struct options *o, const struct cache *cache, struct report *report)
{
	if (o->listed)
		return true;
	report->unrecovered = registry_nr_active(&cache->registry, cache->fs);
	if (report->unrecovered)
		fprintf(stderr, "riorecover: incomplete: %u other file systems in the registry are still to be "
			"recovered; their disks are missing or damaged\n", report->unrecovered);
	return !report->unrecovered && !cache->registry.lost;
}

/* More than that, and somebody has to look before production makes a new registry. */
static bool enough_is_valid(const struct options *o, const struct report *report)
{
	uint64_t rejected = say_damage(o, report);

	if (rejected <= o->most_rejected)
		return true;
	fprintf(stderr, "riorecover: %s: incomplete: at most %llu may be rejected; the registry stays valid\n",
		o->device, (unsigned long long)o->most_rejected);
	return false;
}

/* Goes on without what is missing, if the user says so. */
static int incomplete(const struct options *o)
{
	if (!o->give_up)
		return EXIT_INCOMPLETE;
	fprintf(stderr, "riorecover: %s: what is missing is given up\n", o->device);
	return 0;
}

/* Only memory itself can be written to: a save has no log. */
static int restore_pages(const struct options *o, struct source *source, struct report *report)
{
	struct cache *cache = &source->cache;
	struct undo_log undo;
	int device = open(o->device, O_RDONLY | O_CLOEXEC), err;

	if (device < 0) {
		fprintf(stderr, "riorecover: %s: %s\n", o->device, strerror(errno));
		return EXIT_ENVIRONMENT;
	}
	undo_init(&undo, &cache->registry, &source->memory, le32toh(cache->registry.header.fs[cache->fs].dev));
	err = restore_data(cache, source->used, o->mount_point, device,
			   source->used == &source->memory ? &undo : NULL, &report->data);
	close(device);
	return err ? EXIT_ENVIRONMENT : 0;
}

/* File data, and the end of the registry if all is written or given up. */
static int restore_files(const struct options *o, struct source *source, struct report *report)
{
	double start = now();

	if (!report->mount_error && restore_pages(o, source, report))
		return EXIT_ENVIRONMENT;
	report->seconds_data = now() - start;
	/* Both are told. */
	report->complete = enough_is_valid(o, report) & all_is_written(o, &source->cache, report);
	if (!report->complete && incomplete(o))
		return EXIT_INCOMPLETE;
	if (mark_recovered(o, source))
		return EXIT_ENVIRONMENT;
	say_phase(o, "done");
	return 0;
}

/*
 * From now on the disk has newer metadata than memory, as of files whose data is restored. To put older blocks back, but
 * not those that are not listed, would tear them apart. So a recovery that is cut short goes on with the data.
 */
static int metadata_is_restored(struct source *source, const struct report *report)
{
	struct cache *cache = &source->cache;

	if (report->metadata.failed || cache->log.counts.unreadable || source->used != &source->memory)
		return 0;
	if (registry_set_phase(&cache->registry, &source->memory, cache->fs, RIO_RECOVERING))
		return EXIT_ENVIRONMENT;
	log_end(&cache->log, &cache->registry, &source->memory);
	return 0;
}

/* The first write of a mount is to the superblock; what cannot be mounted is as it was. */
static int mount_recovered(const struct options *o, struct source *source, struct report *report)
{
	report->mount_error = -mount_file_system(o->device, o->type, o->mount_point, false);
	if (report->mount_error)
		return 0;
	if (metadata_is_restored(source, report))
		return EXIT_ENVIRONMENT;
	report->mount_error = -mount_writable(o->device, o->mount_point);
	return 0;
}

/* Everything between the registry and the report; report says how far it got. */
static int recover(const struct options *o, struct source *source,
		   struct device *device, struct report *report)
{
	bool warm = o->has_registry && source->cache.verdict == REGISTRY_VALID;
	int status = 0;

	report->complete = true;
	if (o->listed && !warm)
		return 0;
	if (warm && (cache_has_its_metadata_restored(&source->cache) ? undo_file(source, device, report) :
		     restore_blocks(o, source, device, report)))
		return EXIT_ENVIRONMENT;
	/* e2fsck needs exclusive access to the device. */
	if (o->has_registry)
		close(device->fd);
	status = check(o, report);
	if (status)
		return status;

	say_phase(o, "data");
	if (!warm)
		report->mount_error = -mount_file_system(o->device, o->type, o->mount_point, true);
	else if (mount_recovered(o, source, report))
		return EXIT_ENVIRONMENT;
	/* Without a registry a mount that fails is a result: the file system is lost. */
	if (warm)
		status = restore_files(o, source, report);
	if (!others_are_written(o, &source->cache, report)) {
		report->complete = false;
		status = status ? status : incomplete(o);
	}
	return status;
}

int main(int argc, char **argv)
{
	struct options o;
	struct source source = { .cache = { .verdict = REGISTRY_NONE, .fs = -1 } };
	struct report report = { .cache = &source.cache, .e2fsck_status = -1, .mount_error = -1 };
	struct device device;
	int status = options_parse(argc, argv, &o);

	if (status)
		return status;
	report.saving = o.save;
	report.type = o.type;
	if (o.writing)
		say_phase(&o, "registry");
	if (o.has_registry &&
	    (device_open(&device, o.device, o.writing) ||
	     memory_open(&source.memory, o.memory, o.limit, o.writing) ||
	     find_cache(&o, &device, &source, &report)))
		return EXIT_ENVIRONMENT;
	status = o.writing ? recover(&o, &source, &device, &report) : 0;
	if (!o.writing)
		say_damage(&o, &report);
	if (status != EXIT_ENVIRONMENT && status != EXIT_NO_PROGRAM && write_report(&o, &report))
		status = EXIT_ENVIRONMENT;
	cache_close(&source.cache);
	if (o.has_registry)
		memory_close(&source.memory);
	if (report.from_save)
		save_close(&source.save);
	return status;
}
