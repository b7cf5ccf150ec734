/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The source tree that is copied and compiled: C that needs no library. The text of a
 * file follows from what is in struct origin, and no two files hold the same numbers.
 */
#ifndef ANDREW_SOURCE_H
#define ANDREW_SOURCE_H

#include <stddef.h>
#include <stdint.h>

#define DIRS 4u			/* file number f lies in directory f % DIRS */
#define FILES_LEAST (2 * DIRS)
#define FILES_MOST 400u
#define FILES_DEFAULT 16u

struct origin {
	uint64_t seed;
	uint64_t process;
	uint64_t round;
};

/* The first DIRS files are headers, one for each directory; the next one has the program's entry. */
static inline int is_header(unsigned int file)
{
	return file < DIRS;
}

/* The text of file @file of @files, to be freed; its length goes to *@length. */
char *source_text(const struct origin *origin, unsigned int file, unsigned int files, size_t *length);

#endif
