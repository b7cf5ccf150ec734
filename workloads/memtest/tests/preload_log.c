// SPDX-License-Identifier: Apache-2.0
/*
 * Preloaded: adds "fsync <path>" to the file $PRELOAD_LOG for each fsync, and
 * "write" before each write to that same file; then does what was asked for.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* The path that @fd was opened by; empty if it has none. */
static void path_of(int fd, char *path, size_t size)
{
	char link[64];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, size - 1);
	path[length < 0 ? 0 : length] = '\0';
}

static void add(const char *line)
{
	int log = open(getenv("PRELOAD_LOG"), O_WRONLY | O_APPEND);

	if (log < 0 || syscall(SYS_write, log, line, strlen(line)) != (long)strlen(line))
		abort();
	close(log);
}

int fsync(int fd)
{
	char path[4096], line[4200];

	path_of(fd, path, sizeof(path));
	snprintf(line, sizeof(line), "fsync %s\n", path);
	add(line);
	return (int)syscall(SYS_fsync, fd);
}

ssize_t write(int fd, const void *data, size_t length)
{
	char path[4096];

	path_of(fd, path, sizeof(path));
	if (!strcmp(path, getenv("PRELOAD_LOG")))
		add("write\n");
	return syscall(SYS_write, fd, data, length);
}
