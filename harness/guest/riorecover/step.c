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

static int run(const char *const *argv, int log)
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
		execv(*argv, (char *const *)argv);
		_exit(127);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (!WIFEXITED(status))
		return -EINTR;
	return WEXITSTATUS(status) == 127 ? -ENOENT : WEXITSTATUS(status);
}

static int open_log(const char *log)
{
	return open(log, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
}

static int close_log(int log, int status)
{
	if (log >= 0)
		close(log);
	return status;
}

int check_file_system(const char *e2fsck, const char *device, const char *log)
{
	/* To make a tree of extents narrower is no repair, and a reset in the middle of it loses the file. */
	const char *argv[] = { e2fsck, "-f", "-y", "-E", "no_optimize_extents", device, NULL };
	int fd = open_log(log);
	int status = run(argv, fd);

	/*
	 * e2fsck gives up if the journal that it replayed leaves a superblock that it cannot open;
	 * only the next run looks for a backup. A user would try that before calling the file
	 * system lost, so recovery does.
	 */
	if (status > 0 && status & (E2FSCK_UNCORRECTED | E2FSCK_OPERATIONAL_ERROR))
		status = run(argv, fd);
	return close_log(fd, status);
}

int replay_and_check(const char *device, const char *type, const char *mount_point,
		     const char *check, const char *repair, const char *log)
{
	bool mounted = !mount_file_system(device, type, mount_point, true);
	const char *command = mounted ? check : repair;
	/* The command is words, the device one of them. */
	const char *argv[] = { "/bin/sh", "-c", "exec $0 \"$1\"", command, device, NULL };

	if (mounted && umount(mount_point))
		return -errno;
	if (!command)
		return 0;
	int fd = open_log(log);

	return close_log(fd, run(argv, fd));
}

/* A damaged inode may have become a device, which nothing is to open. */
#define MOUNT_FLAGS	(MS_NOATIME | MS_NODEV)

static int do_mount(const char *device, const char *type, const char *mount_point, unsigned long flags)
{
	if (!mount(device, mount_point, type, MOUNT_FLAGS | flags, ""))
		return 0;
	int err = errno;

	fprintf(stderr, "riorecover: mount %s on %s: %s\n", device, mount_point,
		strerror(err));
	return -err;
}

int mount_file_system(const char *device, const char *type, const char *mount_point, bool writable)
{
	return do_mount(device, type, mount_point, writable ? 0 : MS_RDONLY);
}

int mount_writable(const char *device, const char *mount_point)
{
	return do_mount(device, NULL, mount_point, MS_REMOUNT);
}
