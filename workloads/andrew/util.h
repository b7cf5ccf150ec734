/* SPDX-License-Identifier: Apache-2.0 */
#ifndef ANDREW_UTIL_H
#define ANDREW_UTIL_H

#include <stddef.h>

enum exit_status {
	EXIT_EQUAL = 0,		/* all went well; verify: nothing differs */
	EXIT_ENVIRONMENT = 1,	/* the surroundings do not allow it */
	EXIT_USAGE = 2,		/* wrong use */
	EXIT_DIFFERS = 3,	/* verify: a difference */
	EXIT_FAILURES = 4,	/* run: steps failed */
};

/* Prints "andrew: <message>" as one line on stderr and exits with @status. */
_Noreturn void die(enum exit_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* realloc() that exits with EXIT_ENVIRONMENT when memory is out. */
void *grow(void *old, size_t count, size_t size);

#endif
