/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file whose data is being restored. What a write changes besides the data is put back: times and
 * capabilities. The change time (ctime) becomes that of recovery; nothing can set it.
 */
#ifndef RESTORED_FILE_H
#define RESTORED_FILE_H

#include <stdint.h>
#include <sys/types.h>
#include <time.h>

struct restored_file {
	int fd;
	off_t size;
	struct timespec times[2];	/* of access and of modification */
	int flags;			/* as FS_IOC_GETFLAGS has them; 0 if none were taken away */
	char capability[64];		/* linux/capability.h: XATTR_CAPS_SZ_3 is 24 */
	ssize_t capability_size;	/* -1: none */
};

/*
 * Opens a regular file by inode number and generation, so its name need not survive. The flag
 * append-only is taken away until it is closed. 0, or -errno; -ESTALE if the file does not exist
 * (any more).
 */
int restored_file_open(struct restored_file *file, int mount_fd, uint32_t ino, uint32_t generation);

/*
 * Writes content; -1 if not all of it was written. The second one goes past stage 0's file cache, and wants whole pages.
 */
int restored_file_write(struct restored_file *file, const void *content, size_t size, off_t at);
int restored_file_write_direct(struct restored_file *file, const void *content, size_t size, off_t at);

/* Puts back what the writes changed; 0, or -errno if something could not be. */
int restored_file_put_back(struct restored_file *file);
void restored_file_close(struct restored_file *file);

#endif
