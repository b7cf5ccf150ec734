/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Progress records, which must outlive the machine: one line each, as memtest's,
 *	<letter> <step> <crc>[ <text>]\n
 * where crc is CRC32C, 8 hex digits, of the seed's 8 bytes (little endian) and
 * the line up to and including the space before the crc.
 */
#ifndef PMEMOBJ_PROGRESS_H
#define PMEMOBJ_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

enum record {
	RECORD_START = 'S',
	RECORD_INTENT = 'I',	/* before the step */
	RECORD_DONE = 'D',	/* after it */
	RECORD_FINISH = 'F',	/* the last record; with a text when no further step was possible */
	RECORD_ERROR = 'E',	/* the step failed */
};

struct progress {
	int fd;
	unsigned short port;	/* 0: there is a file, fd */
	uint64_t seed;
	size_t used;
	char buffer[1024];
};

/*
 * @path is a file, or "port:NUMBER": an I/O port of the machine's, which the
 * program writes to itself, so that no driver is in between that could be broken.
 * Exits with EXIT_ENVIRONMENT when it cannot be opened for writing.
 */
void progress_open(struct progress *progress, const char *path, uint64_t seed);
/* Adds a record to those that the next progress_send() sends. @text, at most 300 characters, may be NULL. */
void progress_add(struct progress *progress, enum record record, uint64_t step, const char *text);
/* Sends what was added, to a file in one write(2); exits with EXIT_ENVIRONMENT when that fails. */
void progress_send(struct progress *progress);

#endif
