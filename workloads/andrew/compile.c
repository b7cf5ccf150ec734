// SPDX-License-Identifier: Apache-2.0
#include "compile.h"

#include <errno.h>
#include <fcntl.h>
#include <libtcc.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "io.h"
#include "util.h"

/*
 * libtcc looks at no result of read(), lseek() or fwrite(), so a call that failed would make a wrong file that it says
 * is right. The linker gives it these instead (--wrap in the Makefile): it writes to memory, and what failed is kept.
 */
static struct {
	char *bytes;
	size_t size;
	bool failed;
} output;

int __wrap_open(const char *path, int flags, ...);
int __real_open(const char *path, int flags, ...);
FILE *__wrap_fdopen(int fd, const char *mode);
ssize_t __wrap_read(int fd, void *buffer, size_t size);
ssize_t __real_read(int fd, void *buffer, size_t size);
off_t __wrap_lseek(int fd, off_t offset, int whence);
off_t __real_lseek(int fd, off_t offset, int whence);

/* The output's name is empty. All other calls in this program come here, too. */
int __wrap_open(const char *path, int flags, ...)
{
	mode_t mode;
	va_list more;

	if (!*path)
		return __real_open("/dev/null", O_WRONLY);
	va_start(more, flags);
	mode = flags & O_CREAT ? va_arg(more, mode_t) : 0;
	va_end(more);
	return __real_open(path, flags, mode);
}

FILE *__wrap_fdopen(int fd, const char *mode)
{
	(void)mode;
	close(fd);
	return open_memstream(&output.bytes, &output.size);
}

ssize_t __wrap_read(int fd, void *buffer, size_t size)
{
	ssize_t got = __real_read(fd, buffer, size);

	output.failed |= got < 0;
	return got;
}

off_t __wrap_lseek(int fd, off_t offset, int whence)
{
	off_t at = __real_lseek(fd, offset, whence);

	output.failed |= at < 0;
	return at;
}

uint8_t *compile(char *const *inputs, size_t count, size_t *length)
{
	TCCState *state = tcc_new();
	bool well = state;

	if (!state)
		return NULL;
	memset(&output, 0, sizeof(output));
	tcc_set_options(state, "-nostdinc -nostdlib -static");
	well = !tcc_set_output_type(state, count > 1 ? TCC_OUTPUT_EXE : TCC_OUTPUT_OBJ);
	for (size_t i = 0; i < count && well; i++)
		well = tcc_add_file(state, inputs[i]) >= 0;
	/* libtcc removes a file of that name first; there can be none. */
	well = well && !tcc_output_file(state, "") && output.bytes && !output.failed;
	tcc_delete(state);
	if (!well) {
		free(output.bytes);
		return NULL;
	}
	*length = output.size;
	return (uint8_t *)output.bytes;
}

int command_cc(int argc, char **argv)
{
	bool sync = argc > 1 && !strcmp(argv[1], "--fsync");
	char **word = argv + 1 + sync;
	size_t length;
	uint8_t *result;

	if (argc < 3 + sync)
		die(EXIT_USAGE, "cc: give OUTPUT and INPUT");
	result = compile(word + 1, (size_t)(argc - 2 - sync), &length);
	if (!result)
		return STATUS_COMPILER;
	if (!write_new(AT_FDCWD, word[0], result, length, sync))
		return errno;
	free(result);
	return 0;
}
