// SPDX-License-Identifier: Apache-2.0
#include "util.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void die(enum exit_status status, const char *format, ...)
{
	va_list args;

	fputs("pmemobj: ", stderr);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fputc('\n', stderr);
	exit(status);
}
