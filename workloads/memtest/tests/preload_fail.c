// SPDX-License-Identifier: Apache-2.0
/*
 * Preloaded: of the calls below that work on a file or directory whose path begins with $PRELOAD_UNDER, one in
 * $PRELOAD_ONE_IN fails with the errno $PRELOAD_ERRNO, and has been done, or not, or done in part.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* xorshift32 (Marsaglia, 2003) */
static uint32_t draw(void)
{
	static uint32_t state;

	if (!state)
		state = (uint32_t)atoi(getenv("PRELOAD_SEED")) * 2654435769u + 1;
	state ^= state << 13;
	state ^= state >> 17;
	state ^= state << 5;
	return state;
}

static int fails(void)
{
	return draw() % (uint32_t)atoi(getenv("PRELOAD_ONE_IN")) == 0;
}

static long failure(void)
{
	errno = atoi(getenv("PRELOAD_ERRNO"));
	return -1;
}

static int is_under(int fd)
{
	char link[64], path[4096], under[64];
	ssize_t length;

	snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
	length = readlink(link, path, sizeof(path) - 1);
	path[length < 0 ? 0 : length] = '\0';
	snprintf(under, sizeof(under), "/%s", getenv("PRELOAD_UNDER"));
	return !!strstr(path, under);
}

/* The result of the call, which fails before or after it was made. */
#define MAYBE(call) (!fails() ? (call) : (draw() % 2 ? (void)(call) : (void)0, failure()))

int openat(int dir, const char *path, int flags, ...)
{
	if (strncmp(path, getenv("PRELOAD_UNDER"), strlen(getenv("PRELOAD_UNDER"))))
		return (int)syscall(SYS_openat, dir, path, flags, 0644);
	return (int)MAYBE(syscall(SYS_openat, dir, path, flags, 0644));
}

int mkdirat(int dir, const char *path, mode_t mode)
{
	return (int)MAYBE(syscall(SYS_mkdirat, dir, path, mode));
}

int unlinkat(int dir, const char *path, int flags)
{
	return (int)MAYBE(syscall(SYS_unlinkat, dir, path, flags));
}

int renameat(int from, const char *old, int to, const char *new)
{
	return (int)MAYBE(syscall(SYS_renameat, from, old, to, new));
}

int ftruncate(int fd, off_t size)
{
	return (int)MAYBE(syscall(SYS_ftruncate, fd, size));
}

int fsync(int fd)
{
	(void)fd;
	return fails() ? (int)failure() : 0;
}

ssize_t pread(int fd, void *data, size_t length, off_t offset)
{
	return MAYBE(syscall(SYS_pread64, fd, data, length, offset));
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset)
{
	return MAYBE(syscall(SYS_pwrite64, fd, data, draw() % 2 ? length : (length + 1) / 2, offset));
}

ssize_t write(int fd, const void *data, size_t length)
{
	if (!is_under(fd))
		return syscall(SYS_write, fd, data, length);
	return MAYBE(syscall(SYS_write, fd, data, draw() % 2 ? length : (length + 1) / 2));
}
