// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/io.h>
#include <unistd.h>

#include "util.h"

#define PORT_PREFIX "port:"

/* CRC32C: RFC 3720, appendix B.4; the polynomial 0x1edc6f41, bits reversed. @crc is 0 to begin. */
static uint32_t crc32c(uint32_t crc, const void *data, size_t length)
{
	const uint8_t *byte = data;

	crc = ~crc;
	while (length--) {
		crc ^= *byte++;
		for (int bit = 0; bit < 8; bit++)
			crc = (crc >> 1) ^ (crc & 1 ? 0x82f63b78u : 0);
	}
	return ~crc;
}

static void open_port(struct progress *progress, const char *number)
{
	char *end;
	unsigned long port = strtoul(number, &end, 0);

	if (end == number || *end || port == 0 || port > 0xffff)
		die(EXIT_USAGE, "%s%s is no I/O port; give a number up to 0xffff", PORT_PREFIX, number);
	if (ioperm(port, 1, 1))
		die(EXIT_ENVIRONMENT, "cannot use I/O port %s: %s", number, strerror(errno));
	progress->port = (unsigned short)port;
}

void progress_open(struct progress *progress, const char *path, uint64_t seed)
{
	/* In /dev a file made by mistake would swallow the records. */
	int create = strncmp(path, "/dev/", 5) ? O_CREAT : 0;

	*progress = (struct progress){ .seed = seed };
	if (!strncmp(path, PORT_PREFIX, strlen(PORT_PREFIX))) {
		open_port(progress, path + strlen(PORT_PREFIX));
		return;
	}
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
	int tail = snprintf(line + head, room - (size_t)head, "%08x%s%.300s\n", crc, text ? " " : "",
			    text ? text : "");

	progress->used += (size_t)(head + tail);
}

void progress_send(struct progress *progress)
{
	const char *from = progress->buffer;

	if (progress->port) {
		outsb(progress->port, from, progress->used);
		progress->used = 0;
		return;
	}
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
