// SPDX-License-Identifier: Apache-2.0
/*
 * remapped SECONDS SEED WORKERS: several processes map the same pages of a file in the current folder, store
 * into them, and unmap them, again and again. Meanwhile the file is written out. So the first and the last
 * mapping of a page come and go on one processor while another stores into the page or makes it clean.
 * Every worker stores only into lines of its own, has a copy of them, and compares them at the end.
 *
 * Exit status: 0 right, 1 a line differs or a call failed, 2 wrong use, 69 the guest lacks something.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LACKS 69
#define PAGE 4096
#define PAGES 8 /* few, so that workers meet */
#define SIZE (PAGES * PAGE)
#define LINE 64
#define MOST_WORKERS (PAGE / LINE)
#define STORES 16 /* while a part of the file is mapped */

static int file;
static uint64_t state;

static uint64_t draw(uint64_t below)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state % below;
}

static void must(int good, const char *what)
{
	if (!good)
		err(errno == ENOSPC || errno == ENOMEM ? LACKS : 1, "remapped: %s", what);
}

/* A random line of a worker, between two pages of the file, in bytes from its start. */
static size_t own_line(size_t first, size_t end, unsigned int worker, unsigned int workers)
{
	size_t page = first + draw(end - first), mine = (MOST_WORKERS - worker - 1) / workers + 1;

	return page * PAGE + (worker + draw(mine) * workers) * LINE;
}

static void map_once(unsigned char *copy, unsigned int worker, unsigned int workers)
{
	size_t first = draw(PAGES), end = first + 1 + draw(PAGES - first);
	unsigned char *mapped = mmap(NULL, (end - first) * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file,
				     (off_t)(first * PAGE));

	must(mapped != MAP_FAILED, "mmap");
	for (unsigned int n = 0; n < STORES; n++) {
		size_t at = own_line(first, end, worker, workers);

		memset(copy + at, (int)draw(256), LINE);
		memcpy(mapped + at - first * PAGE, copy + at, LINE);
	}
	must(!munmap(mapped, (end - first) * PAGE), "munmap");
}

/* The worker's first byte that the file has otherwise; -1: none. */
static long wrong(const unsigned char *copy, unsigned int worker, unsigned int workers)
{
	static unsigned char is[SIZE];

	must(pread(file, is, SIZE, 0) == SIZE, "read");
	for (long at = 0; at < SIZE; at++)
		if (at / LINE % MOST_WORKERS % workers == worker && is[at] != copy[at])
			return at;
	return -1;
}

static int work(time_t end, unsigned int worker, unsigned int workers)
{
	unsigned char *copy = calloc(1, SIZE);
	unsigned long rounds = 0;
	long at;

	must(copy != NULL, "calloc");
	for (; time(NULL) < end; rounds++)
		map_once(copy, worker, workers);
	at = wrong(copy, worker, workers);
	if (at >= 0)
		printf("remapped: worker %u's byte %ld differs\n", worker, at);
	else
		printf("worker %u: %lu mappings\n", worker, rounds);
	return at >= 0;
}

static void write_out(unsigned int how)
{
	/* FIEMAP's flag writes data out even where fsync does not need to. */
	struct fiemap map = { .fm_length = ~0ULL, .fm_flags = FIEMAP_FLAG_SYNC };
	unsigned int range = SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER;

	must(!(how % 2 ? ioctl(file, FS_IOC_FIEMAP, &map) : sync_file_range(file, 0, 0, range)), "writing out");
}

int main(int argc, char **argv)
{
	unsigned long workers = argc == 4 ? strtoul(argv[3], NULL, 10) : 0;
	uint64_t seed;
	time_t end;
	int status, bad = 0;

	if (!workers || workers > MOST_WORKERS)
		errx(2, "use: remapped SECONDS SEED WORKERS, at most %d", MOST_WORKERS);
	end = time(NULL) + atol(argv[1]);
	seed = strtoull(argv[2], NULL, 10);
	file = open("remapped", O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0644);
	must(file >= 0 && !ftruncate(file, SIZE), "making the file");
	for (unsigned int worker = 0; worker < workers; worker++) {
		pid_t pid = fork();

		must(pid >= 0, "fork");
		state = (seed * MOST_WORKERS + worker) * 2 + 1;
		if (!pid)
			return work(end, worker, (unsigned int)workers);
	}
	for (unsigned int n = 0; time(NULL) < end; n++)
		write_out(n);
	while (wait(&status) > 0)
		bad |= !WIFEXITED(status) ? 1 : WEXITSTATUS(status);
	return bad;
}
