/* SPDX-License-Identifier: Apache-2.0 */
/* What other programs do for a recovery: check the file system, mount it. */
#ifndef STEP_H
#define STEP_H

#define FS_EXT4 "ext4"

/*
 * e2fsck -fy, once more if it left errors; output goes to log. The last one's exit
 * status (a bit mask, see its manual), or -errno when it could not be run.
 */
int check_file_system(const char *e2fsck, const char *device, const char *log);

/*
 * The same for a type whose mount replays its log: mount and unmount, then the shell command
 * check, which only reports, or repair if it cannot be mounted; either may be NULL. The exit
 * status of the one that was run (0 if none was), or -errno when it could not be run.
 */
int replay_and_check(const char *device, const char *type, const char *mount_point,
		     const char *check, const char *repair, const char *log);

/* Mount for writing; 0, or -errno with a line on stderr. */
int mount_file_system(const char *device, const char *type, const char *mount_point);

#endif
