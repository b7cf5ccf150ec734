// SPDX-License-Identifier: Apache-2.0
/*
 * Loses the memory of a host that has not crashed: msync() of a file named "pool" copies what is synced to the file
 * $SHADOW, and nothing else does. So that file is what a disk has after a loss of power at that moment.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int msync(void *address, size_t length, int flags)
{
	unsigned long from, to, offset, wanted = (unsigned long)address;
	int shadow = open(getenv("SHADOW"), O_WRONLY | O_CLOEXEC);
	FILE *maps = fopen("/proc/self/maps", "re");
	char line[4096];

	(void)flags;
	if (shadow < 0 || !maps)
		abort();
	while (fgets(line, sizeof(line), maps))
		if (strstr(line, "/pool\n") && sscanf(line, "%lx-%lx %*s %lx", &from, &to, &offset) == 3 &&
		    wanted >= from && wanted < to)
			break;
	length = (length + 4095) & ~4095ul;
	if (pwrite(shadow, address, length, (off_t)(wanted - from + offset)) != (ssize_t)length)
		abort();
	fclose(maps);
	close(shadow);
	return 0;
}
