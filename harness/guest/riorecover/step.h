/* SPDX-License-Identifier: Apache-2.0 */
/* What other programs do for a recovery: check the file system, mount it. */
#ifndef STEP_H
#define STEP_H

/*
 * e2fsck -fy, once more if it left errors; output goes to log. The last one's exit
 * status (a bit mask, see its manual), or -errno when it could not be run.
 */
int check_file_system(const char *e2fsck, const char *device, const char *log);

/* Mount ext4 for writing; 0, or -errno with a line on stderr. */
int mount_file_system(const char *device, const char *mount_point);

#endif
