/* SPDX-License-Identifier: Apache-2.0 */
#include "step.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

int check_file_system(const char *e2fsck, const char *device, const char *log)
{
	int status;
	pid_t pid = fork();

	if (pid < 0)
		return -errno;
	if (!pid) {
		int fd = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0644);

		if (fd >= 0) {
			dup2(fd, STDOUT_FILENO);
			dup2(fd, STDERR_FILENO);
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

int mount_file_system(const char *device, const char *mount_point)
{
	if (!mount(device, mount_point, "ext4", MS_NOATIME, ""))
		return 0;
	int err = errno;

	fprintf(stderr, "riorecover: mount %s on %s: %s\n", device, mount_point,
		strerror(err));
	return -err;
}
