// SPDX-License-Identifier: Apache-2.0
#include "states.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "content.h"

/* What a file system writes at once: the page of all that riobed tests. */
#define BLOCK 4096u
#define BLOCKS (FILE_MAX / BLOCK)

/* Whether it was like that before it was made durable, or since, and what is lost after that. */
struct fit {
	bool before;
	bool since;
	bool now;	/* after the last change so far */
	uint64_t lost;
};

struct block {
	struct fit fit;
	bool touched;	/* by a change that need not be durable */
	bool plain;	/* once it fitted without zeros past the end that the file had then */
};

static uint8_t found[FILE_MAX], now[FILE_MAX], before[FILE_MAX];
static bool right[FILE_MAX];	/* the byte is as after some change since it was made durable */

struct comparison {
	uint64_t seed;
	uint64_t size;		/* of the file found */
	size_t blocks;
	struct block block[BLOCKS];
	struct fit length;	/* of the file */
	uint64_t was;		/* the size that the changes so far have made */
	bool since;		/* these need not be durable */
	bool whole;		/* once since then it was as a whole what is found */
	uint64_t lost;		/* after that */
};

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void note(struct fit *fit, bool fits, bool since, const struct change *change)
{
	fit->now = fits;
	if (fits && since)
		fit->since = true;
	else if (fits)
		fit->before = true;
	if (fits)
		fit->lost = 0;
	else if (change && change->sure && since && !fit->lost)
		fit->lost = change->step;
}

/* Whether each byte is as before the change or as after it, as a change may be cut short by the crash. */
static bool is_between(size_t from, size_t to)
{
	for (size_t i = from; i < to; i++)
		if (found[i] != now[i] && found[i] != before[i])
			return false;
	return true;
}

static void look_at_block(struct comparison *comparison, size_t number, const struct change *change)
{
	struct block *block = &comparison->block[number];
	size_t from = number * BLOCK, to = least(from + BLOCK, comparison->size);
	bool inside = to <= comparison->was, fits = !memcmp(found + from, now + from, to - from);
	bool between = !fits && change && is_between(from, to);

	if (between && !change->sure)
		fits = true;
	if (comparison->since) {
		block->touched = block->touched || change;
		block->plain = block->plain || (fits && inside);
		for (size_t i = from; i < to; i++)
			right[i] = right[i] || (found[i] == now[i] && i < comparison->was);
		note(&block->fit, fits, true, change);
		if (between && change->sure)
			block->fit.lost = change->step;
	} else {
		note(&block->fit, fits && inside, false, change);
	}
}

static void look_at_blocks(struct comparison *comparison, uint64_t from, uint64_t to, const struct change *change)
{
	for (size_t i = from / BLOCK; i < comparison->blocks && i * BLOCK < to; i++)
		look_at_block(comparison, i, change);
}

/* A change that makes a file longer may have got as far as any size in between. */
static void look_at_size(struct comparison *comparison, uint64_t old, const struct change *change)
{
	uint64_t size = comparison->size, new = comparison->was;
	bool between = change && !change->resize && old < size && size < new;

	note(&comparison->length, size == new || between, comparison->since, change);
	if (between && change->sure && comparison->since)
		comparison->length.lost = change->step;
}

/* Whether the file is what the changes so far have made. */
static void look_at_whole(struct comparison *comparison, const struct change *change)
{
	bool same = comparison->size == comparison->was;

	for (size_t i = 0; same && i < comparison->blocks; i++)
		same = comparison->block[i].fit.now;
	if (same) {
		comparison->whole = true;
		comparison->lost = 0;
	} else if (change && change->sure && !comparison->lost) {
		comparison->lost = change->step;
	}
}

static void make(struct comparison *comparison, const struct change *change)
{
	uint64_t old = comparison->was, end = change->offset + (change->resize ? 0 : change->length);
	uint64_t from = least(old, change->offset), to = change->resize && old > end ? old : end;

	memcpy(before + from, now + from, to - from);
	if (change->resize)
		memset(now + from, 0, to - from);
	else
		content_fill(comparison->seed, change->step, change->offset, now + change->offset, change->length);
	comparison->was = change->resize || end > old ? end : old;
	look_at_blocks(comparison, from, to, change);
	look_at_size(comparison, old, change);
}

static void look_since(struct comparison *comparison)
{
	comparison->since = true;
	look_at_blocks(comparison, 0, comparison->size, NULL);
	look_at_size(comparison, comparison->was, NULL);
	look_at_whole(comparison, NULL);
}

static enum state state_of(const struct comparison *comparison, size_t number)
{
	const struct block *block = &comparison->block[number];
	size_t from = number * BLOCK, to = least(from + BLOCK, comparison->size);
	bool torn = true, zeroed = true;

	if (block->fit.since)
		return block->plain ? STATE_MIXED : STATE_ZEROED;
	for (size_t i = from; i < to; i++) {
		torn = torn && right[i];
		zeroed = zeroed && (right[i] || !found[i]);
	}
	if (block->touched && (torn || zeroed))
		return torn ? STATE_TORN : STATE_ZEROED;
	if (block->fit.before)
		return STATE_UNSYNCED;
	return block->touched ? STATE_STALE : STATE_DAMAGED;
}

static struct finding conclude(const struct comparison *comparison)
{
	struct finding finding = { .state = STATE_NEWEST, .lost = comparison->length.lost };

	if (comparison->whole)
		return (struct finding){ comparison->lost ? STATE_OLDER : STATE_NEWEST, comparison->lost, 0, 0 };
	if (!comparison->length.since)
		return (struct finding){ comparison->length.before ? STATE_UNSYNCED : STATE_DAMAGED, 0,
					 comparison->size, 0 };
	for (size_t i = 0; i < comparison->blocks; i++) {
		enum state state = state_of(comparison, i);
		uint64_t lost = comparison->block[i].fit.lost, end = least((i + 1) * BLOCK, comparison->size);

		if (lost && (!finding.lost || lost < finding.lost))
			finding.lost = lost;
		if (state > finding.state) {
			finding.state = state;
			finding.offset = i * BLOCK;
		}
		if (state == finding.state)
			finding.length = end - finding.offset;
	}
	/* All that is there in part is the step in flight, or one that failed. */
	if (!finding.lost && finding.state < STATE_STALE)
		finding.state = STATE_NEWEST;
	else if (finding.state < STATE_MIXED)
		finding.state = STATE_MIXED;
	return finding;
}

/* False if it cannot be read, or is longer than any file was. */
static bool read_found(int fd, uint64_t *size)
{
	struct stat stat;
	size_t got = 0;
	ssize_t more;

	if (fstat(fd, &stat) || stat.st_size < 0 || (uint64_t)stat.st_size > FILE_MAX)
		return false;
	for (*size = (uint64_t)stat.st_size; got < *size; got += (size_t)more) {
		more = pread(fd, found + got, *size - got, (off_t)got);
		if (more <= 0)
			return false;
	}
	return true;
}

struct finding find_state(int fd, const struct object *object, uint64_t seed)
{
	static struct comparison comparison;

	comparison = (struct comparison){ .seed = seed };
	if (!read_found(fd, &comparison.size))
		return (struct finding){ .state = STATE_DAMAGED };
	comparison.blocks = (comparison.size + BLOCK - 1) / BLOCK;
	memset(now, 0, sizeof(now));
	memset(right, 0, sizeof(right));
	if (object->twin) {
		comparison.was = object->twin->file.size;
		file_read(&object->twin->file, seed, 0, now, comparison.was);
	}
	look_at_blocks(&comparison, 0, comparison.size, NULL);
	look_at_size(&comparison, comparison.was, NULL);
	for (size_t i = 0; i < object->changes; i++) {
		if (i == object->synced)
			look_since(&comparison);
		make(&comparison, &object->change[i]);
		if (comparison.since)
			look_at_whole(&comparison, &object->change[i]);
	}
	if (object->synced == object->changes)
		look_since(&comparison);
	return conclude(&comparison);
}
