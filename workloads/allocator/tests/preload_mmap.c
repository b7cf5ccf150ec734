// SPDX-License-Identifier: Apache-2.0
/* mmap() that changes a bit of the first MiB it gave, when it has given as many as the environment's DAMAGE_AT says. */
#include <dlfcn.h>
#include <stdlib.h>
#include <sys/mman.h>

void *mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	void *(*next)(void *, size_t, int, int, int, off_t) = dlsym(RTLD_NEXT, "mmap");
	void *found = next(address, size, protection, flags, fd, offset);
	const char *at = getenv("DAMAGE_AT");
	static unsigned char *first;
	static long given;

	if (found == MAP_FAILED || size != 1 << 20)
		return found;
	if (!first)
		first = found;
	if (at && ++given == atol(at))
		first[12345] ^= 4;
	return found;
}
