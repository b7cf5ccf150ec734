// SPDX-License-Identifier: Apache-2.0
/*
 * block-map DIR LIST: where the bytes of files lie on their disk. LIST has paths in DIR, one a line. Everything is
 * written to the disk first. For each path a line follows on standard output, in hexadecimal numbers:
 *
 *	SIZE [LOGICAL:PHYSICAL:LENGTH:FLAGS]... - PATH
 *
 * The brackets are extents as the file system tells them (Documentation/filesystems/fiemap.rst), in bytes; what none of
 * them has is a hole. Exit status 1 if any of it fails: then no line counts.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/fiemap.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* Extents that one call asks for; most files have fewer. */
#define EXTENTS 64

static _Noreturn void die(const char *what)
{
	fprintf(stderr, "block-map: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* Prints the extents from byte @from on; returns where those that the next call asks for begin, 0 at the end. */
static __u64 print_extents(int fd, __u64 from, const char *path)
{
	static union {
		struct fiemap map;
		char room[sizeof(struct fiemap) + EXTENTS * sizeof(struct fiemap_extent)];
	} u;
	const struct fiemap_extent *extent = NULL;

	u.map = (struct fiemap){
		.fm_start = from, .fm_length = FIEMAP_MAX_OFFSET - from, .fm_flags = FIEMAP_FLAG_SYNC,
		.fm_extent_count = EXTENTS,
	};
	if (ioctl(fd, FS_IOC_FIEMAP, &u.map))
		die(path);
	for (__u32 i = 0; i < u.map.fm_mapped_extents && i < EXTENTS; i++) {
		extent = &u.map.fm_extents[i];
		printf(" %llx:%llx:%llx:%x", extent->fe_logical, extent->fe_physical, extent->fe_length,
		       extent->fe_flags);
	}
	if (!extent || extent->fe_flags & FIEMAP_EXTENT_LAST)
		return 0;
	/* A damaged list must not be asked for without end. */
	errno = EUCLEAN;
	if (extent->fe_logical + extent->fe_length <= from)
		die(path);
	return extent->fe_logical + extent->fe_length;
}

static void print_file(int dir, const char *path)
{
	int fd = openat(dir, path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct stat stat;
	__u64 from = 0;

	if (fd < 0 || fstat(fd, &stat))
		die(path);
	printf("%llx", (unsigned long long)stat.st_size);
	do {
		from = print_extents(fd, from, path);
	} while (from);
	printf(" - %s\n", path);
	close(fd);
}

int main(int argc, char **argv)
{
	int dir = argc == 3 ? open(argv[1], O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	FILE *list = dir >= 0 ? fopen(argv[2], "re") : NULL;
	char *line = NULL;
	size_t room = 0;
	ssize_t length;

	if (argc != 3) {
		fprintf(stderr, "block-map: give DIR and LIST\n");
		return 2;
	}
	if (!list || syncfs(dir))
		die(dir < 0 || list ? argv[1] : argv[2]);
	while ((length = getline(&line, &room, list)) > 0) {
		if (line[length - 1] == '\n')
			line[length - 1] = '\0';
		print_file(dir, line);
	}
	if (ferror(list) || fflush(stdout) || ferror(stdout))
		die("input or output");
	free(line);
	fclose(list);
	close(dir);
	return 0;
}
