/* SPDX-License-Identifier: Apache-2.0 */
#include "sizes.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>
#include <unistd.h>

#include "restore.h"

/* What e2fsck says of PR_1_BAD_I_SIZE (e2fsck/problem.c). */
#define BAD_SIZE "Inode %" SCNu32 ", i_size is %" SCNu64 ", should be %" SCNu64 "."

static int put_back(int mount_fd, uint32_t ino, uint64_t was, uint64_t made)
{
	off_t size;
	int fd, err = 0;

	if (was >= made || made > INT64_MAX)
		return 0;
	fd = open_inode(mount_fd, ino, 0, &size);
	if (fd < 0)
		return 0; /* no file any more: e2fsck had more to mend */
	if ((uint64_t)size == made)
		err = ftruncate(fd, (off_t)was) ? -errno : 1;
	close(fd);
	return err;
}

int64_t put_back_sizes(const char *fsck_log, const char *mount_point)
{
	FILE *log = fopen(fsck_log, "r");
	int mount_fd = open(mount_point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char line[512];
	int64_t files = 0;

	if (!log || mount_fd < 0) {
		files = -errno;
		fprintf(stderr, "riorecover: %s: %s\n", log ? mount_point : fsck_log,
			strerror(errno));
	}
	while (files >= 0 && fgets(line, sizeof(line), log)) {
		uint64_t was, made;
		uint32_t ino;
		int done;

		if (sscanf(line, BAD_SIZE, &ino, &was, &made) != 3)
			continue;
		done = put_back(mount_fd, ino, was, made);
		if (done < 0)
			fprintf(stderr, "riorecover: inode %" PRIu32 ": %s\n", ino,
				strerror(-done));
		files = done < 0 ? done : files + done;
	}
	if (log)
		fclose(log);
	if (mount_fd >= 0)
		close(mount_fd);
	return files;
}
