// SPDX-License-Identifier: Apache-2.0
/*
 * lines ADDRESS: stores 8 bytes, its own number, in each line of an NVDIMM from the physical ADDRESS on, in one way for
 * each KIND lines. Then it says "stored" and waits. harness/tests/integration/test_lines.py knows what is durable.
 *
 * lines ADDRESS moved: stores to all lines, then flushes memory that it has put where they were.
 * lines ADDRESS open: stores to one line after the other and flushes each, without a fence and without an end.
 */
#include <fcntl.h>
#include <immintrin.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define LINE 64
#define KIND 40

static char *start;

static uint64_t *line(int number)
{
	return (uint64_t *)(start + LINE * number);
}

static void store(int number)
{
	*(volatile uint64_t *)line(number) = number + 1;
}

static void keep_in_the_cache(int number)
{
	store(number);
}

static void write_back(int number)
{
	store(number);
	_mm_clwb(line(number));
	_mm_sfence();
}

static void write_back_with_an_index(int number)
{
	uint64_t index = number;

	store(number);
	asm volatile("shl $3, %1; clflushopt (%0, %1, 8)" : : "r"(start), "r"(index) : "memory");
	/* A locked instruction orders as a fence does. */
	asm volatile("lock orl $0, (%%rsp)" : : : "memory", "cc");
}

static void write_back_at_once(int number)
{
	store(number);
	_mm_clflush(line(number));
}

static void bypass_the_cache(int number)
{
	_mm_stream_si64((long long *)line(number), number + 1);
	_mm_sfence();
}

static void copy_by_repetition(int number)
{
	uint64_t value = number + 1;
	void *from = &value, *to = line(number);
	uint64_t bytes = sizeof(value);

	asm volatile("rep movsb" : "+S"(from), "+D"(to), "+c"(bytes) : : "memory");
	_mm_clwb(line(number));
	_mm_mfence();
}

/* Two contents wait for the fence, and the newer one counts, whatever happens to the line before it meanwhile. */
static void write_back_twice(int number)
{
	void *before = line(number - 1);

	_mm_clwb(before);
	*(volatile uint64_t *)line(number) = ~0ull;
	_mm_clwb(line(number));
	store(number);
	_mm_clwb(line(number));
	_mm_clflush(before);
	_mm_sfence();
}

static void change_after_write_back(int number)
{
	write_back(number);
	line(number)[1] = number + 1;
}

/* Only the kernel fences, at interrupts, so at most moments some lines wait for that. */
static void flush_and_never_fence(int nr)
{
	for (int number = 0;; number = (number + 1) % nr) {
		*line(number) += nr;
		_mm_clwb(line(number));
		for (volatile int wait = 0; wait < 100; wait++)
			;
	}
}

/* Nothing that was stored is written back: what is flushed is other memory at the same addresses. */
static int flush_elsewhere(int nr)
{
	for (int number = 0; number < nr; number++)
		store(number);
	if (mmap(start, (size_t)nr * LINE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) !=
	    start)
		return 1;
	for (int number = 0; number < nr; number++) {
		store(number);
		_mm_clwb(line(number));
		_mm_sfence();
	}
	return 0;
}

int main(int argc, char **argv)
{
	static void (*const kinds[])(int) = {keep_in_the_cache,	 write_back,	     write_back_with_an_index,
					     write_back_at_once, bypass_the_cache,   copy_by_repetition,
					     write_back_twice,	 change_after_write_back};
	int nr = sizeof(kinds) / sizeof(*kinds) * KIND;
	int file = open("/dev/mem", O_RDWR);

	if (argc < 2 || argc > 3 || file < 0)
		return 2;
	start = mmap(NULL, (size_t)nr * LINE, PROT_READ | PROT_WRITE, MAP_SHARED, file, strtoull(argv[1], NULL, 16));
	if (start == MAP_FAILED)
		return 1;
	if (argc == 2)
		for (int number = 0; number < nr; number++)
			kinds[number / KIND](number);
	else if (!strcmp(argv[2], "moved") && flush_elsewhere(nr))
		return 1;
	else if (!strcmp(argv[2], "open"))
		flush_and_never_fence(nr);
	puts("stored");
	fflush(stdout);
	pause();
	return 0;
}
