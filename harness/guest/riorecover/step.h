/* SPDX-License-Identifier: Apache-2.0 */
/* Steps of a recovery that other programs do: check the file system, mount it. */
#ifndef STEP_H
#define STEP_H

#include <stdbool.h>

#define FS_EXT4 "ext4"

/*
 * Runs e2fsck -fy, and once more if it left errors; output goes to log. Returns the last
 * exit status (a bit mask, see its manual), or -errno if it could not be run.
 */
int check_file_system(const char *e2fsck, const char *device, const char *log);

/*
 * The same for a type whose mount replays its log. Mounts and unmounts it, then runs the
 * shell command check, which only reports, or repair if the mount fails; either may be NULL.
 * Returns the exit status of the command (0 if none ran), or -errno if it could not be run.
 */
int replay_and_check(const char *device, const char *type, const char *mount_point,
		     const char *check, const char *repair, const char *log);

/* Mount for reading only or for writing; 0, or -errno with a line on stderr. */
int mount_file_system(const char *device, const char *type, const char *mount_point, bool writable);

/* Makes a mounted file system writable. */
int mount_writable(const char *device, const char *mount_point);

#endif
