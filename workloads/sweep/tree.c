// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <ftw.h>
#include <linux/fs.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "tree.h"

#define MOST 65536

/* http://www.isthe.com/chongo/tech/comp/fnv/ */
#define FNV_BASIS 0xcbf29ce484222325ull
#define FNV_PRIME 0x100000001b3ull

static size_t skip;

static uint64_t hash(uint64_t sum, const unsigned char *bytes, size_t count)
{
	for (size_t i = 0; i < count; i++)
		sum = (sum ^ bytes[i]) * FNV_PRIME;
	return sum;
}

static int compare(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The names and values of all extended attributes, in the order of names. */
static void print_attributes(const char *path)
{
	static char names[MOST], value[MOST];
	const char *sorted[256];
	ssize_t size = llistxattr(path, names, sizeof(names)), length;
	size_t count = 0;

	for (ssize_t at = 0; at < size && count < 256; at += (ssize_t)strlen(names + at) + 1)
		sorted[count++] = names + at;
	qsort(sorted, count, sizeof(*sorted), compare);
	for (size_t i = 0; i < count; i++) {
		length = lgetxattr(path, sorted[i], value, sizeof(value));
		printf(" %s=%016llx", sorted[i], length < 0 ? 0ull : (unsigned long long)
		       hash(FNV_BASIS, (unsigned char *)value, (size_t)length));
	}
}

static int print_content(int fd)
{
	static unsigned char bytes[MOST];
	uint64_t sum = FNV_BASIS;
	ssize_t count;

	while ((count = read(fd, bytes, sizeof(bytes))) > 0)
		sum = hash(sum, bytes, (size_t)count);
	printf("%016llx", (unsigned long long)sum);
	return count < 0;
}

static int print_file(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
	const char *name = path + skip;
	char target[4096];
	int fd = -1, flags = 0, failed = type == FTW_DNR || type == FTW_NS;
	ssize_t length;

	(void)ftw;
	if (!strcmp(name, "/lost+found"))
		return 0;
	if (S_ISREG(stat->st_mode) || S_ISDIR(stat->st_mode)) {
		fd = open(path, O_RDONLY | O_NONBLOCK | O_NOATIME);
		failed |= fd < 0 || ioctl(fd, FS_IOC_GETFLAGS, &flags);
	}
	printf("%s%c", *name ? name : "/", 0);
	printf("%c%c", S_ISREG(stat->st_mode) ? 'f' : S_ISDIR(stat->st_mode) ? 'd' : S_ISLNK(stat->st_mode) ? 'l' :
	       S_ISFIFO(stat->st_mode) ? 'p' : '?', 0);
	printf("%o %ju %u:%u %jd %#x", stat->st_mode & 07777, (uintmax_t)stat->st_nlink, stat->st_uid, stat->st_gid,
	       S_ISDIR(stat->st_mode) ? 0 : (intmax_t)stat->st_size, flags & FS_FL_USER_MODIFIABLE);
	print_attributes(path);
	putchar(0);
	if (S_ISREG(stat->st_mode) && fd >= 0)
		failed |= print_content(fd);
	if (S_ISLNK(stat->st_mode)) {
		length = readlink(path, target, sizeof(target));
		failed |= length < 0;
		if (length > 0)
			fwrite(target, 1, (size_t)length, stdout);
	}
	putchar(0);
	if (fd >= 0)
		close(fd);
	if (failed)
		perror(path);
	return failed;
}

int print_tree(const char *folder)
{
	skip = strlen(folder);
	return nftw(folder, print_file, 32, FTW_PHYS) || fflush(stdout) ? 1 : 0;
}
