// SPDX-License-Identifier: Apache-2.0
#include "io.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "util.h"

static bool finish(int fd, bool sync)
{
	if (sync && fsync(fd)) {
		int error = errno;

		close(fd);
		errno = error;
		return false;
	}
	return !close(fd);
}

bool write_new(int dir, const char *path, const void *data, size_t length, bool sync)
{
	int fd = openat(dir, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	const uint8_t *from = data;

	if (fd < 0)
		return false;
	while (length) {
		ssize_t written = write(fd, from, length);

		if (written <= 0 || (size_t)written > length) {
			int error = written < 0 ? errno : EIO;

			close(fd);
			errno = error;
			return false;
		}
		from += written;
		length -= (size_t)written;
	}
	return finish(fd, sync);
}

uint8_t *read_whole(int fd, size_t *length)
{
	struct stat stat;
	uint8_t *data;

	if (fstat(fd, &stat))
		return NULL;
	if (stat.st_size > SIZE_MOST) {
		errno = EFBIG;
		return NULL;
	}
	/* One byte more: no file is empty memory. */
	data = grow(NULL, (size_t)stat.st_size + 1, 1);
	for (*length = 0; *length < (size_t)stat.st_size;) {
		ssize_t got = pread(fd, data + *length, (size_t)stat.st_size - *length, (off_t)*length);

		if (got <= 0 || (size_t)got > (size_t)stat.st_size - *length) {
			errno = got < 0 ? errno : EIO;
			free(data);
			return NULL;
		}
		*length += (size_t)got;
	}
	return data;
}

bool sync_dir(int dir, const char *path)
{
	int fd = openat(dir, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	return fd >= 0 && finish(fd, true);
}
