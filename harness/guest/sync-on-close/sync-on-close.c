// SPDX-License-Identifier: Apache-2.0
/*
 * Preloaded into the programs of a workload: makes a regular file durable when
 * a program closes a descriptor that it could write through, be it one of
 * several for the same open file. A call that closes succeeds only if that did.
 * Static programs are not changed.
 *
 * The C library closes the files of its streams without calling close(), and
 * the kernel those of a process that ends, so both are caught here, too.
 */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Returns 0, or -1 with errno if the file could not be made durable. */
static int sync_written(int fd)
{
	int error = errno;
	int flags = fcntl(fd, F_GETFL);
	struct stat status;

	if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY || (flags & O_PATH) || fstat(fd, &status) ||
	    !S_ISREG(status.st_mode)) {
		errno = error;
		return 0;
	}
	return fsync(fd);
}

/* The error of the sync is that of the call, which has closed the file all the same. */
static int first_error(int synced, int error, int result)
{
	if (!synced || result)
		return result;
	errno = error;
	return -1;
}

int close(int fd)
{
	int synced = sync_written(fd);
	int error = errno;

	return first_error(synced, error, (int)syscall(SYS_close, fd));
}

int fclose(FILE *stream)
{
	static int (*next)(FILE *);
	int fd = fileno(stream);
	int synced = fflush(stream) || (fd >= 0 && sync_written(fd)) ? -1 : 0;
	int error = errno;

	if (!next)
		next = (int (*)(FILE *))dlsym(RTLD_NEXT, "fclose");
	return first_error(synced, error, next(stream));
}

/* A descriptor that becomes another one is closed before. */
int dup2(int from, int to)
{
	if (from != to && sync_written(to))
		return -1;
	return (int)syscall(SYS_dup2, from, to);
}

int dup3(int from, int to, int flags)
{
	if (from != to && sync_written(to))
		return -1;
	return (int)syscall(SYS_dup3, from, to, flags);
}

static void sync_all(void)
{
	DIR *own = opendir("/proc/self/fd");
	struct dirent *entry;

	if (!own)
		return;
	while ((entry = readdir(own)))
		sync_written(atoi(entry->d_name));
	closedir(own);
}

/* exit() writes the streams only after this, so they are written here. */
__attribute__((destructor)) static void at_exit(void)
{
	fflush(NULL);
	sync_all();
}

void _exit(int status)
{
	sync_all();
	syscall(SYS_exit_group, status);
	__builtin_unreachable();
}
