// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands.h"
#include "util.h"

int command_prepare(const struct options *options)
{
	int dir;

	if (mkdir(options->dir, 0755) && errno != EEXIST)
		die(EXIT_ENVIRONMENT, "cannot make %s: %s", options->dir, strerror(errno));
	if (!options->api->create(pool_path(options), options->size))
		die(EXIT_ENVIRONMENT, "cannot make %s: %s", pool_path(options), api_error.text);
	options->api->close();
	dir = open(options->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || syncfs(dir))
		die(EXIT_ENVIRONMENT, "cannot sync %s: %s", options->dir, strerror(errno));
	close(dir);
	return EXIT_EQUAL;
}
