/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of a recovery that other programs do: check the file system, mount it. */
#ifndef STEP_H
#define STEP_H

#include <stdbool.h>

struct options;

#define FS_EXT4 "ext4"

/*
 * Runs e2fsck -fy, and once more if it left errors; output goes to log. Returns the last
 * exit status (a bit mask, see its manual), or -errno if it could not be run: -ENOENT if it
 * is not there.
 */
int check_file_system(const char *e2fsck, const char *device, const char *log);

/* The mount that replays the log, before any check or repair. */
struct first_mount {
	bool tried;
	int error;		/* errno, 0: mounted */
	int bare_error;		/* errno of a mount that leaves the log out, 0: mounted, -1: not tried */
	int repair_status;	/* exit status of the repair, -1: not run */
};

/*
 * The same for a type whose mount replays its log. Mounts and unmounts it, then runs the
 * shell command --check, which only reports. If the mount fails, tries one without the log, for
 * reading only, and runs --repair. Sets *status to the exit status of the check if that ran.
 * Returns 0, or -errno if a command could not be run.
 */
int replay_and_check(const struct options *o, struct first_mount *first, int *status);

/* Mount for reading only or for writing; 0, or -errno with a line on stderr. */
int mount_file_system(const char *device, const char *type, const char *mount_point, bool writable);

/* Makes a mounted file system writable. */
int mount_writable(const char *device, const char *mount_point);

#endif
