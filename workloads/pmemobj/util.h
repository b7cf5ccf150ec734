/* SPDX-License-Identifier: Apache-2.0 */
/* Ending with one line. */
#ifndef PMEMOBJ_UTIL_H
#define PMEMOBJ_UTIL_H

enum exit_status {
	EXIT_EQUAL = 0,		/* all went well; verify: nothing differs */
	EXIT_ENVIRONMENT = 1,	/* the surroundings do not allow it */
	EXIT_USAGE = 2,		/* wrong use */
	EXIT_DIFFERS = 3,	/* verify: a difference */
	EXIT_FAILED = 4,	/* run: a step failed */
};

/* Prints "pmemobj: <message>" as one line on stderr and exits with @status. */
_Noreturn void die(enum exit_status status, const char *format, ...)
	__attribute__((format(printf, 2, 3)));

#endif
