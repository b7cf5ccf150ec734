/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Linked into riorecover by tests alone, in front of the C library: power is lost at the
 * write or flush number LOSE_POWER_AT. That write is torn between two sectors; of those
 * since their disk was last flushed some, drawn from the seed LOSE_POWER_SEED, never
 * reached it. The number of writes and flushes of a whole run goes to LOSE_POWER_COUNT.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { SECTOR = 512, LOG = 4096 };

static struct write {
	int fd;
	off_t at;
	size_t size;
	uint8_t *old;
} writes[LOG];
static int nr_writes;
static long count;

ssize_t __real_pwrite(int fd, const void *from, size_t size, off_t at);
ssize_t __wrap_pwrite(int fd, const void *from, size_t size, off_t at);
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_syncfs(int fd);
int __wrap_syncfs(int fd);

static long number(const char *name)
{
	const char *text = getenv(name);

	return text ? strtol(text, NULL, 10) : 0;
}

static bool power_fails(void)
{
	return ++count == number("LOSE_POWER_AT");
}

__attribute__((noreturn)) static void lose_power(void)
{
	srand((unsigned int)number("LOSE_POWER_SEED"));
	for (int i = nr_writes - 1; i >= 0; i--)
		if (rand() % 2)
			(void)!__real_pwrite(writes[i].fd, writes[i].old, writes[i].size, writes[i].at);
	raise(SIGKILL);
	abort();
}

/* What a write replaces. It is read, and maybe put back, through the file cache, however the write itself is done. */
static struct write replaced(int fd, size_t size, off_t at)
{
	struct write w = { .at = at, .old = malloc(size) };
	char path[64];
	ssize_t got;

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	w.fd = open(path, O_RDWR | O_CLOEXEC);
	got = w.fd < 0 || !w.old ? -1 : pread(w.fd, w.old, size, at);
	if (got < 0)
		abort();
	w.size = (size_t)got;
	return w;
}

/* Which disk: block devices by themselves, files by their file system. */
static dev_t disk_of(int fd)
{
	struct stat st;

	fstat(fd, &st);
	return S_ISBLK(st.st_mode) ? st.st_rdev : st.st_dev;
}

static void flushed(int fd, bool whole_disk)
{
	struct stat a, b;
	int kept = 0;

	fstat(fd, &a);
	for (int i = 0; i < nr_writes; i++) {
		fstat(writes[i].fd, &b);
		if (whole_disk ? disk_of(fd) == disk_of(writes[i].fd) :
		    a.st_dev == b.st_dev && a.st_ino == b.st_ino) {
			free(writes[i].old);
			close(writes[i].fd);
		} else {
			writes[kept++] = writes[i];
		}
	}
	nr_writes = kept;
}

ssize_t __wrap_pwrite(int fd, const void *from, size_t size, off_t at)
{
	bool fails = power_fails();

	if (nr_writes == LOG)
		abort();
	writes[nr_writes++] = replaced(fd, size, at);
	if (fails) {
		(void)!__real_pwrite(fd, from, size / 2 / SECTOR * SECTOR, at);
		lose_power();
	}
	return __real_pwrite(fd, from, size, at);
}

int __wrap_fsync(int fd)
{
	if (power_fails())
		lose_power();
	flushed(fd, false);
	return __real_fsync(fd);
}

int __wrap_syncfs(int fd)
{
	if (power_fails())
		lose_power();
	flushed(fd, true);
	return __real_syncfs(fd);
}

__attribute__((destructor)) static void tell(void)
{
	const char *path = getenv("LOSE_POWER_COUNT");
	FILE *out = path ? fopen(path, "w") : NULL;

	if (out) {
		fprintf(out, "%ld\n", count);
		fclose(out);
	}
}
