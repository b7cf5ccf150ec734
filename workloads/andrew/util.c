// SPDX-License-Identifier: Apache-2.0
#include "util.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void die(enum exit_status status, const char *format, ...)
{
	va_list args;

	fputs("andrew: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(status);
}

void *grow(void *old, size_t count, size_t size)
{
	void *new = reallocarray(old, count, size);

	if (!new && count)
		die(EXIT_ENVIRONMENT, "out of memory (%zu elements of %zu bytes)", count, size);
	return new;
}
