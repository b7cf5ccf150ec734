/* SPDX-License-Identifier: Apache-2.0 */
#include "step.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

enum { E2FSCK_UNCORRECTED = 4, E2FSCK_OPERATIONAL_ERROR = 8 };

static int run_e2fsck(const char *e2fsck, const char *device, int log)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (!pid) {
		if (log >= 0) {
			dup2(log, STDOUT_FILENO);
			dup2(log, STDERR_FILENO);
		}
		execl(e2fsck, "e2fsck", "-f", "-y", device, (char *)NULL);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (!WIFEXITED(status))
		return -EINTR;
	return WEXITSTATUS(status) == 127 ? -ENOENT : WEXITSTATUS(status);
}

int check_file_system(const char *e2fsck, const char *device, const char *log)
{
	int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
	int status = run_e2fsck(e2fsck, device, fd);

	/*
	 * It gives up when the journal it has replayed leaves a superblock it cannot open; only
	 * the next run then looks for a backup. What a user would try before the file system is
	 * called lost, recovery tries.
	 */
	if (status > 0 && status & (E2FSCK_UNCORRECTED | E2FSCK_OPERATIONAL_ERROR))
		status = run_e2fsck(e2fsck, device, fd);
	if (fd >= 0)
		close(fd);
	return status;
}

int mount_file_system(const char *device, const char *mount_point)
{
	if (!mount(device, mount_point, "ext4", MS_NOATIME, ""))
		return 0;
	int err = errno;

	fprintf(stderr, "riorecover: mount %s on %s: %s\n", device, mount_point,
		strerror(err));
	return -err;
}
