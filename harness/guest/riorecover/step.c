/* SPDX-License-Identifier: Apache-2.0 */
#include "step.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/wait.h>
#include <unistd.h>

#include "options.h"

enum { E2FSCK_UNCORRECTED = 4, E2FSCK_OPERATIONAL_ERROR = 8 };
/* Of a shell or chroot whose command was found but cannot be run, or was not found (POSIX, env(1)). */
enum { EXIT_CANNOT_RUN = 126, EXIT_NOT_FOUND = 127 };

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
		_exit(EXIT_NOT_FOUND);
	}
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (!WIFEXITED(status))
		return -EINTR;
	status = WEXITSTATUS(status);
	return status == EXIT_CANNOT_RUN || status == EXIT_NOT_FOUND ? -ENOENT : status;
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

/* A damaged inode may have become a device, which nothing is to open. */
#define MOUNT_FLAGS	(MS_NOATIME | MS_NODEV)

static int do_mount(const char *device, const char *type, const char *mount_point, unsigned long flags,
		    const char *options)
{
	if (!mount(device, mount_point, type, MOUNT_FLAGS | flags, options))
		return 0;
	int err = errno;

	fprintf(stderr, "riorecover: mount %s on %s: %s\n", device, mount_point,
		strerror(err));
	return -err;
}

int mount_file_system(const char *device, const char *type, const char *mount_point, bool writable)
{
	return do_mount(device, type, mount_point, writable ? 0 : MS_RDONLY, "");
}

int mount_writable(const char *device, const char *mount_point)
{
	return do_mount(device, NULL, mount_point, MS_REMOUNT, "");
}

static int run_on_device(const struct options *o, const char *command)
{
	/* The command is words, the device one of them. */
	const char *argv[] = { "/bin/sh", "-c", "exec $0 \"$1\"", command, o->device, NULL };
	int fd = open_log(o->fsck_log);

	return close_log(fd, run(argv, fd));
}

/* Was it for the log that the mount failed? Only a mount without it tells. */
static int try_without_log(const struct options *o, struct first_mount *first)
{
	first->bare_error = -do_mount(o->device, o->type, o->mount_point, MS_RDONLY, o->without_log);
	if (first->bare_error)
		return 0;
	fprintf(stderr, "riorecover: %s: its log cannot be replayed: without it the mount succeeds\n", o->device);
	return umount(o->mount_point) ? -errno : 0;
}

static int repair(const struct options *o, struct first_mount *first)
{
	int status = o->without_log ? try_without_log(o, first) : 0;

	if (status || !o->repair)
		return status;
	status = run_on_device(o, o->repair);
	if (status < 0)
		return status;
	first->repair_status = status;
	fprintf(stderr, "riorecover: %s: %s: status %d\n", o->device, o->repair, status);
	return 0;
}

int replay_and_check(const struct options *o, struct first_mount *first, int *status)
{
	int err = mount_file_system(o->device, o->type, o->mount_point, true);

	*first = (struct first_mount){ .tried = true, .error = -err, .bare_error = -1, .repair_status = -1 };
	if (err)
		return repair(o, first);
	if (umount(o->mount_point))
		return -errno;
	if (!o->check)
		return 0;
	err = run_on_device(o, o->check);
	if (err < 0)
		return err;
	*status = err;
	return 0;
}
