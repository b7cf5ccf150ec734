// SPDX-License-Identifier: Apache-2.0
/*
 * moved FILE PAGES: stores into each page of a mapped file, takes the right to store away, lets compaction move the
 * pages, gives the right back and stores again. The entry of a dirty page needs no fault for that (mm/mprotect.c,
 * can_change_pte_writable()), so nothing tells the file system. Prints how many pages moved, and what is wrong in memory.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#define PAGE 4096UL

struct page {
	uint64_t frame;
	char *at;
};

static uint64_t frame_of(const char *at)
{
	static int pagemap = -1;
	uint64_t entry = 0;

	if (pagemap < 0)
		pagemap = open("/proc/self/pagemap", O_RDONLY);
	if (pread(pagemap, &entry, 8, (off_t)((uintptr_t)at / PAGE * 8)) != 8)
		exit(1);
	return entry & ((1ULL << 55) - 1);
}

static int by_frame(const void *a, const void *b)
{
	const struct page *x = a, *y = b;

	return (x->frame > y->frame) - (x->frame < y->frame);
}

/* Take nearly all that is free, and give the lowest frames back: the file gets them, and compaction empties them. */
static void leave_the_lowest(size_t pages, char **room, size_t *size)
{
	struct sysinfo info;
	struct page *all;
	size_t i, nr;

	sysinfo(&info);
	*size = (info.freeram - (30UL << 20)) / PAGE * PAGE;
	nr = *size / PAGE;
	*room = mmap(NULL, *size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	all = calloc(nr, sizeof(*all));
	if (*room == MAP_FAILED || !all)
		exit(1);
	for (i = 0; i < nr; i++)
		all[i] = (struct page){ frame_of(*room + i * PAGE), *room + i * PAGE };
	qsort(all, nr, sizeof(*all), by_frame);
	for (i = 0; i < pages && i < nr; i++)
		madvise(all[i].at, PAGE, MADV_DONTNEED);
	free(all);
}

/* How many of the file's pages move between two stores, as much as compaction wants. */
static size_t moved_pages(int fd, size_t pages, uint64_t *before)
{
	size_t size, i, moved = 0;
	char *map, *room;

	if (ftruncate(fd, 0) || ftruncate(fd, (off_t)(pages * PAGE)))
		exit(1);
	leave_the_lowest(pages + 12000, &room, &size);
	map = mmap(NULL, pages * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		exit(1);
	for (i = 0; i < pages; i++)
		map[i * PAGE] = 'a';
	mprotect(map, pages * PAGE, PROT_READ);
	for (i = 0; i < pages; i++)
		before[i] = frame_of(map + i * PAGE);
	munmap(room, size);
	for (i = 0; i < 5; i++)
		if (system("echo 1 >/proc/sys/vm/compact_memory"))
			exit(1);
	/* Pages close. */
	sleep(1);
	mprotect(map, pages * PAGE, PROT_READ | PROT_WRITE);
	for (i = 0; i < pages; i++) {
		moved += frame_of(map + i * PAGE) != before[i];
		map[i * PAGE + 1] = 'b';
	}
	/* Still mapped: when it no longer is, the file system is told what was stored. */
	return moved;
}

int main(int argc, char **argv)
{
	size_t pages = argc > 2 ? (size_t)atoi(argv[2]) : 0, moved = 0;
	int fd = pages ? open(argv[1], O_RDWR | O_CREAT | O_TRUNC, 0644) : -1;
	uint64_t *before = calloc(pages, 8);
	int round;

	if (fd < 0 || !before)
		return 1;
	/* In a guest that has just started, the file may get pages to which compaction finds nothing better. */
	for (round = 0; round < 6 && !moved; round++)
		moved = moved_pages(fd, pages, before);
	printf("%zu\n", moved);
	fflush(stdout);
	/* What is open closes. */
	sleep(1);
	return system("cat /sys/kernel/debug/rio/verify");
}
