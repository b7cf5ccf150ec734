// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "crc32c.h"
#include "util.h"

void progress_open(struct progress *progress, const char *path, uint64_t seed)
{
	/* In /dev a file made by mistake would swallow the records. */
	int create = strncmp(path, "/dev/", 5) ? O_CREAT : 0;

	*progress = (struct progress){ .seed = seed };
	progress->fd = open(path, O_WRONLY | O_APPEND | O_NOCTTY | O_CLOEXEC | create, 0644);
	if (progress->fd < 0)
		die(EXIT_ENVIRONMENT, "cannot open %s for progress: %s", path, strerror(errno));
}

void progress_add(struct progress *progress, enum record record, uint64_t step, const char *text)
{
	uint64_t seed = htole64(progress->seed);
	char *line = progress->buffer + progress->used;
	size_t room = sizeof(progress->buffer) - progress->used;
	int head = snprintf(line, room, "%c %llu ", record, (unsigned long long)step);
	uint32_t crc = crc32c(crc32c(0, &seed, sizeof(seed)), line, (size_t)head);
	int tail = snprintf(line + head, room - (size_t)head, "%08x%s%s\n", crc, text ? " " : "", text ? text : "");

	progress->used += (size_t)(head + tail);
}

void progress_send(struct progress *progress)
{
	const char *from = progress->buffer;

	while (progress->used) {
		ssize_t sent = write(progress->fd, from, progress->used);

		if (sent < 0 && errno == EINTR)
			continue;
		if (sent <= 0 || (size_t)sent > progress->used)
			die(EXIT_ENVIRONMENT, "cannot write progress: %s", strerror(errno));
		from += sent;
		progress->used -= (size_t)sent;
	}
}
