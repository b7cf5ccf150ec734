// SPDX-License-Identifier: Apache-2.0
#include "compile.h"

#include <errno.h>
#include <fcntl.h>
#include <libtcc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "io.h"
#include "util.h"

static bool run_compiler(const char *output, char *const *inputs, size_t count)
{
	TCCState *state = tcc_new();
	bool well = state;

	if (!state)
		return false;
	tcc_set_options(state, "-nostdinc -nostdlib -static");
	well = !tcc_set_output_type(state, count > 1 ? TCC_OUTPUT_EXE : TCC_OUTPUT_OBJ);
	for (size_t i = 0; i < count && well; i++)
		well = tcc_add_file(state, inputs[i]) >= 0;
	well = well && !tcc_output_file(state, output);
	tcc_delete(state);
	return well;
}

/* The compiler does not look whether its writes succeed, so it writes to memory. */
uint8_t *compile(char *const *inputs, size_t count, size_t *length)
{
	int fd = memfd_create("andrew", MFD_CLOEXEC);
	uint8_t *result = NULL;
	char path[64];

	if (fd < 0)
		die(EXIT_ENVIRONMENT, "cannot make a file in memory: %s", strerror(errno));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	if (run_compiler(path, inputs, count))
		result = read_whole(fd, length);
	close(fd);
	return result;
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
