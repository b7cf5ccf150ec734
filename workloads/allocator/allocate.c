// SPDX-License-Identifier: Apache-2.0
/*
 * Memory that grows, filled and read again.
 *
 *	allocate grow FILE MIB SEED [--fsync]	map MIB times 1 MiB and fill it, then read all of it again
 *	allocate check FILE			whether FILE says what such a run must say
 *
 * Each word has a number that follows from its place and the seed. When all are right, FILE gets MIB, SEED and the sum
 * of what was read. Exit status 3: memory differs, or FILE does. The pages are in no file, so the kernel can only keep
 * them in memory or swap them out.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MIB (1ul << 20)
#define WORDS (MIB / sizeof(uint64_t))
#define MOST_MIB 65536

enum { EQUAL, ENVIRONMENT, USAGE, DIFFERS };

/* The finalizer of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, OOPSLA 2014). */
static uint64_t word_at(uint64_t seed, uint64_t place)
{
	uint64_t z = seed + (place + 1) * 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static int fail(int status, const char *what)
{
	fprintf(stderr, "allocate: %s\n", what);
	return status;
}

static int failed(const char *what)
{
	fprintf(stderr, "allocate: %s: %s\n", what, strerror(errno));
	return ENVIRONMENT;
}

static bool number(const char *text, uint64_t *value)
{
	char *end;

	errno = 0;
	*value = strtoull(text, &end, 10);
	return *text >= '0' && *text <= '9' && !*end && !errno;
}

static uint64_t sum_of(uint64_t mib, uint64_t seed)
{
	uint64_t sum = 0;

	for (uint64_t place = 0; place < mib * WORDS; place++)
		sum += word_at(seed, place);
	return sum;
}

/* Write FILE as a whole or not at all. */
static int report(const char *path, uint64_t mib, uint64_t seed, uint64_t sum, bool sync)
{
	char new[4096];
	FILE *file;
	bool well;

	if (snprintf(new, sizeof(new), "%s.new", path) >= (int)sizeof(new))
		return fail(USAGE, "the path is too long");
	file = fopen(new, "we");
	if (!file)
		return failed(new);
	well = fprintf(file, "%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", mib, seed, sum) > 0 && !fflush(file);
	well = well && (!sync || !fsync(fileno(file)));
	if (fclose(file) || !well || rename(new, path))
		return failed(path);
	return EQUAL;
}

static int grow(const char *path, uint64_t mib, uint64_t seed, bool sync)
{
	uint64_t **parts = calloc(mib, sizeof(*parts)), sum = 0;

	for (uint64_t part = 0; parts && part < mib; part++) {
		uint64_t *words = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

		if (words == MAP_FAILED)
			return failed("mmap");
		parts[part] = words;
		for (uint64_t i = 0; i < WORDS; i++)
			words[i] = word_at(seed, part * WORDS + i);
	}
	for (uint64_t part = 0; parts && part < mib; part++) {
		for (uint64_t i = 0; i < WORDS; i++) {
			if (parts[part][i] != word_at(seed, part * WORDS + i))
				return fail(DIFFERS, "memory differs from what was stored");
			sum += parts[part][i];
		}
	}
	free(parts);
	return parts ? report(path, mib, seed, sum, sync) : failed("calloc");
}

static int check(const char *path)
{
	uint64_t mib, seed, sum;
	FILE *file = fopen(path, "re");
	int found;

	if (!file)
		return errno == ENOENT ? EQUAL : failed(path);
	found = fscanf(file, "%" SCNu64 " %" SCNu64 " %" SCNu64, &mib, &seed, &sum);
	fclose(file);
	if (found == 3 && mib && mib <= MOST_MIB && sum == sum_of(mib, seed))
		return EQUAL;
	puts("{\"difference_count\": 1, \"differences\": [{\"kind\": \"content\", \"path\": \"result\"}]}");
	return DIFFERS;
}

int main(int argc, char **argv)
{
	bool sync = argc == 6 && !strcmp(argv[5], "--fsync");
	uint64_t mib, seed;

	if (argc == 3 && !strcmp(argv[1], "check"))
		return check(argv[2]);
	if (argc < 5 || argc != 5 + sync || strcmp(argv[1], "grow"))
		return fail(USAGE, "usage: allocate grow FILE MIB SEED [--fsync] | allocate check FILE");
	if (!number(argv[3], &mib) || !mib || mib > MOST_MIB || !number(argv[4], &seed))
		return fail(USAGE, "MIB must be a number from 1 to 65536, and SEED a number");
	return grow(argv[2], mib, seed, sync);
}
