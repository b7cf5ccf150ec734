/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Records of a process's steps. A record is a line, as memtest's:
 *	<letter> <step> <crc>[ <text>]\n
 * where crc is CRC32C, 8 hex digits, of the seed's 8 bytes (little endian) and the line up to and including
 * the space before the crc. Several processes write to one port or file at the same time, byte by byte, so each
 * byte says whose it is: a character leaves as two bytes, 0x80 | stream << 4 | nibble, the upper nibble first.
 */
#ifndef ANDREW_PROGRESS_H
#define ANDREW_PROGRESS_H

#include <stddef.h>
#include <stdint.h>

#define STREAMS 8u

enum record {
	RECORD_START = 'S',
	RECORD_INTENT = 'I',
	RECORD_DONE = 'D',
	RECORD_FINISH = 'F',
	RECORD_ERROR = 'E',
};

struct progress {
	int fd;
	unsigned short port;	/* 0: there is a file, fd */
	unsigned int stream;
	uint64_t seed;
	size_t used;
	uint8_t buffer[2048];
};

/* @path is a file or "port:NUMBER". Exits with EXIT_ENVIRONMENT when it cannot be used. */
void progress_open(struct progress *progress, const char *path, uint64_t seed, unsigned int stream);
/* Adds a record to those that the next progress_send() sends. @text may be NULL. */
void progress_add(struct progress *progress, enum record record, uint64_t step, const char *text);
void progress_send(struct progress *progress);

#endif
