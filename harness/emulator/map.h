/* SPDX-License-Identifier: Apache-2.0 */
#ifndef MAP_H
#define MAP_H

#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

/* Map a file of so many bytes, shared with whoever reads it; NULL, with a message, if that fails. */
static inline void *map_file(const char *path, size_t size)
{
	int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	void *mapped = MAP_FAILED;

	if (fd >= 0 && !ftruncate(fd, size))
		mapped = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (fd >= 0)
		close(fd);
	if (mapped == MAP_FAILED) {
		perror(path);
		return NULL;
	}
	return mapped;
}

#endif
