// SPDX-License-Identifier: Apache-2.0
/*
 * pinned SECONDS SEED SOURCE: the kernel stores into pages of mapped files of the current folder, on behalf
 * of system calls that hold ("pin") the pages: /proc/self/mem, process_vm_writev, ptrace, and direct reads
 * from SOURCE, a disk that nobody changes. Meanwhile a thread makes the files be written out, so the stores
 * meet pages that are clean, under writeback, or write-protected. Every store has a copy in plain memory, and
 * at the end the files are compared with it.
 *
 * Exit status: 0 right, 1 a file differs or a call failed, 2 wrong use, 69 the guest lacks something.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LACKS 69
#define PAGE 4096
#define PAGES 64
#define SIZE (PAGES * PAGE)
#define MOST (4 * PAGE) /* bytes of one store */

/* A way to store; what it is not able to do with unaligned addresses is rounded down. */
struct way {
	const char *name;
	size_t align;
	void (*store)(size_t offset, size_t length);
	unsigned char *copy; /* what the file must hold */
	int file;
	unsigned char *mapped;
	unsigned long stores;
	int absent;
};

static struct way *way; /* the one whose turn it is */
static unsigned char *bytes; /* what is stored */
static int memory, source;
static pid_t tracee;
static atomic_int over;
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
		err(errno == ENOSPC || errno == ENOMEM ? LACKS : 1, "%s: %s", way ? way->name : "start", what);
}

static void by_memory_file(size_t offset, size_t length)
{
	off_t address = (off_t)(uintptr_t)(way->mapped + offset);

	must(pwrite(memory, bytes, length, address) == (ssize_t)length, "pwrite");
}

static void by_process_vm(size_t offset, size_t length)
{
	struct iovec from = { bytes, length }, to = { way->mapped + offset, length };

	if (process_vm_writev(getpid(), &from, 1, &to, 1, 0) == (ssize_t)length)
		return;
	must(errno == ENOSYS, "process_vm_writev");
	way->absent = 1;
}

/* A few words only: each is a system call. */
static void by_ptrace(size_t offset, size_t length)
{
	for (size_t n = 0; n + sizeof(long) <= length && n < 64; n += sizeof(long)) {
		long word;

		memcpy(&word, bytes + n, sizeof(word));
		must(!ptrace(PTRACE_POKEDATA, tracee, way->mapped + offset + n, word), "POKEDATA");
	}
}

/* The device puts what it reads into the page of the mapping. */
static void by_direct_read(size_t offset, size_t length)
{
	off_t at = (off_t)draw(SIZE / PAGE - MOST / PAGE) * PAGE;

	must(pread(source, way->mapped + offset, length, at) == (ssize_t)length, "direct read");
	/* The model reads the same bytes into plain memory. */
	must(pread(source, bytes, length, at) == (ssize_t)length, "direct read of the copy");
}

static struct way ways[] = {
	{ .name = "mem", .align = 1, .store = by_memory_file },
	{ .name = "process_vm", .align = 1, .store = by_process_vm },
	{ .name = "ptrace", .align = sizeof(long), .store = by_ptrace },
	{ .name = "direct", .align = PAGE, .store = by_direct_read },
};
#define WAYS (sizeof(ways) / sizeof(ways[0]))

static void write_out(int file, unsigned int how)
{
	/* FIEMAP's flag writes data out even where fsync does not need to. */
	struct fiemap map = { .fm_length = ~0ULL, .fm_flags = FIEMAP_FLAG_SYNC };

	if (how % 2)
		must(!ioctl(file, FS_IOC_FIEMAP, &map), "FIEMAP");
	else
		must(!sync_file_range(file, 0, 0,
				      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
					      SYNC_FILE_RANGE_WAIT_AFTER),
		     "sync_file_range");
}

static void *flush(void *unused)
{
	for (unsigned int n = 0; !over; n++)
		write_out(ways[n / 2 % WAYS].file, n);
	return unused;
}

static void make(struct way *made)
{
	char name[64];

	way = made;
	snprintf(name, sizeof(name), "pinned.%s", way->name);
	way->file = open(name, O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0644);
	must(way->file >= 0, name);
	must(!ftruncate(way->file, SIZE), "ftruncate");
	way->mapped = mmap(NULL, SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, way->file, 0);
	must(way->mapped != MAP_FAILED, "mmap");
	way->copy = calloc(1, SIZE);
	must(way->copy != NULL, "calloc");
}

/* A process with the same mappings, stopped, to poke into. */
static void make_tracee(void)
{
	tracee = fork();
	must(tracee >= 0, "fork");
	if (!tracee)
		for (;;)
			pause();
	must(!ptrace(PTRACE_ATTACH, tracee, NULL, NULL), "attach");
	must(waitpid(tracee, NULL, 0) == tracee, "wait");
}

static void store_once(void)
{
	size_t length = 1 + draw(MOST), offset;

	way = &ways[draw(WAYS)];
	if (way->absent)
		return;
	length = (length + way->align - 1) / way->align * way->align;
	offset = draw(SIZE - length + 1) / way->align * way->align;
	if (way->store == by_ptrace && length > 64)
		length = 64;
	for (size_t n = 0; n < length && way->store != by_direct_read; n++)
		bytes[n] = (unsigned char)draw(256);
	way->store(offset, length);
	if (way->absent)
		return;
	memcpy(way->copy + offset, bytes, length);
	way->stores++;
}

/* The first byte that differs from the copy; -1: none. */
static long wrong(const unsigned char *is)
{
	for (long n = 0; n < SIZE; n++)
		if (is[n] != way->copy[n])
			return n;
	return -1;
}

static int judge(void)
{
	static unsigned char is[SIZE];
	int bad = 0;

	for (way = ways; way < ways + WAYS; way++) {
		long at;

		must(pread(way->file, is, SIZE, 0) == SIZE, "read");
		at = wrong(is);
		if (at >= 0)
			printf("pinned.%s: differs from byte %ld on\n", way->name, at);
		bad |= at >= 0;
		if (way->absent)
			printf("%s: this kernel has no such call\n", way->name);
		else
			printf("%s: %lu stores\n", way->name, way->stores);
	}
	return bad;
}

int main(int argc, char **argv)
{
	pthread_t flusher;
	time_t end;

	if (argc != 4)
		errx(2, "use: pinned SECONDS SEED SOURCE");
	end = time(NULL) + atol(argv[1]);
	state = strtoull(argv[2], NULL, 10) * 2 + 1;
	bytes = aligned_alloc(PAGE, MOST + PAGE);
	must(bytes != NULL, "memory");
	for (size_t n = 0; n < WAYS; n++)
		make(&ways[n]);
	way = NULL;
	/* A file on the file system under test might be read through the page cache, which pins nothing. */
	source = open(argv[3], O_RDONLY | O_DIRECT | O_CLOEXEC);
	if (source < 0)
		err(LACKS, "%s", argv[3]);
	memory = open("/proc/self/mem", O_RDWR | O_CLOEXEC);
	must(memory >= 0, "/proc/self/mem");
	make_tracee();
	must(!pthread_create(&flusher, NULL, flush, NULL), "thread");
	while (time(NULL) < end)
		store_once();
	over = 1;
	pthread_join(flusher, NULL);
	kill(tracee, SIGKILL);
	return judge();
}
