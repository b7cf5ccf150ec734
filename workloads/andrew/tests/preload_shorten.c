// SPDX-License-Identifier: Apache-2.0
/*
 * Preloaded: sources of the round r$PRELOAD_ROUND of the process $PRELOAD_PROCESS are cut short when they are opened
 * to be read, so they are damaged between two steps, at whatever speed these go.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static int is_of_process(int dir)
{
	const char *process = getenv("PRELOAD_PROCESS");
	char link[64], path[4096];
	ssize_t length;
	char *name;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", dir);
	length = readlink(link, path, sizeof(path) - 1);
	path[length < 0 ? 0 : length] = '\0';
	name = strrchr(path, '/');
	return name && !strcmp(name + 1, process);
}

int openat(int dir, const char *path, int flags, ...)
{
	const char *suffix = strrchr(path, '.');
	char source[64];

	snprintf(source, sizeof(source), "r%s/src/", getenv("PRELOAD_ROUND"));
	if (!strncmp(path, source, strlen(source)) && suffix && !strcmp(suffix, ".c") &&
	    (flags & O_ACCMODE) == O_RDONLY && is_of_process(dir)) {
		int fd = (int)syscall(SYS_openat, dir, path, O_WRONLY);

		if (fd < 0 || ftruncate(fd, 10))
			abort();
		close(fd);
	}
	return (int)syscall(SYS_openat, dir, path, flags, 0644);
}
