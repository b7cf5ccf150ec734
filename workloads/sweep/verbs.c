// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>
#include <ftw.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "verbs.h"

#define BLOCK 4096

long turn;

/* The operands of the step, from 1 on as in its text. */
static char **word;
static int words;

static long number(int at)
{
	return at < words ? strtol(word[at], NULL, 0) : 0;
}

static int want(long result)
{
	if (result < 0) {
		fprintf(stderr, "operation: %s %s: ", word[0], words > 1 ? word[1] : "");
		perror(NULL);
		exit(1);
	}
	return (int)result;
}

static int opened(int flags)
{
	return want(open(word[1], flags, 0644));
}

/* Bytes that differ from one block to the next */
static char *bytes(char letter, long size)
{
	char *made = aligned_alloc(BLOCK, (size_t)(size + BLOCK - 1) / BLOCK * BLOCK);

	want(made ? 0 : -1);
	for (long i = 0; i < size; i++)
		made[i] = (char)(letter + i / BLOCK % 8);
	return made;
}

static void write_at(int flags, long offset, long size, const char *letter)
{
	int fd = opened(flags);
	char *made = bytes(*letter, size);

	want(pwrite(fd, made, (size_t)size, offset) == size ? 0 : -1);
	want(close(fd));
	free(made);
}

/* write FILE OFFSET SIZE LETTER; sync-write and direct take the same. */
static void do_write(void)
{
	write_at(O_WRONLY | O_CREAT, number(2), number(3), word[4]);
}

static void do_sync_write(void)
{
	write_at(O_WRONLY | O_CREAT | O_DSYNC, number(2), number(3), word[4]);
}

static void do_direct(void)
{
	write_at(O_WRONLY | O_CREAT | O_DIRECT, number(2), number(3), word[4]);
}

/* append FILE SIZE LETTER */
static void do_append(void)
{
	write_at(O_WRONLY | O_CREAT | O_APPEND, 0, number(2), word[3]);
}

/* mapped FILE OFFSET SIZE LETTER */
static void do_mapped(void)
{
	int fd = opened(O_RDWR);
	long offset = number(2), size = number(3);
	char *made = bytes(*word[4], size), *at = mmap(NULL, (size_t)(offset + size), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

	want(at == MAP_FAILED ? -1 : 0);
	memcpy(at + offset, made, (size_t)size);
	want(munmap(at, (size_t)(offset + size)));
	want(close(fd));
	free(made);
}

/*
 * hole FILE BLOCKS: each turn stores a zero through a mapping into the next of the last BLOCKS blocks. Another byte
 * stays, because it is what the operation has written there. To look for a hole would take the lock that operations on the
 * file hold.
 */
static void do_hole(void)
{
	int fd = opened(O_RDWR);
	struct stat state;
	char *map;

	want(fstat(fd, &state));
	if (turn < number(2)) {
		map = mmap(NULL, BLOCK, PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			   (state.st_size / BLOCK - number(2) + turn) * BLOCK);
		want(map == MAP_FAILED ? -1 : 0);
		__sync_bool_compare_and_swap(map, 0, 0);
		want(munmap(map, BLOCK));
	}
	want(close(fd));
}

/* Every page of FILE is faulted in by a mapping that is new, and read. */
static void do_fault(void)
{
	int fd = opened(O_RDONLY);
	struct stat stat;
	volatile char *at;

	want(fstat(fd, &stat));
	at = mmap(NULL, (size_t)stat.st_size, PROT_READ, MAP_SHARED, fd, 0);
	want(at == MAP_FAILED ? -1 : 0);
	for (long i = 0; i < stat.st_size; i += BLOCK)
		(void)at[i];
	want(munmap((void *)at, (size_t)stat.st_size));
	want(close(fd));
}

static void do_read(void)
{
	static char buffer[65536];
	int fd = opened(O_RDONLY);

	while (want(read(fd, buffer, sizeof(buffer))))
		;
	want(close(fd));
}

/* sendfile FILE TO: appended */
static void do_sendfile(void)
{
	int fd = opened(O_RDONLY), to = want(open(word[2], O_WRONLY | O_CREAT, 0644));

	want(lseek(to, 0, SEEK_END));
	want(sendfile(to, fd, NULL, 1 << 20));
	want(close(fd));
	want(close(to));
}

static void do_create(void)
{
	want(close(opened(O_WRONLY | O_CREAT | O_EXCL)));
}

/* Opened with O_TRUNC */
static void do_empty(void)
{
	want(close(opened(O_WRONLY | O_TRUNC)));
}

static void do_truncate(void)
{
	want(truncate(word[1], number(2)));
}

/* lengthen FILE BLOCKS: by a hole */
static void do_lengthen(void)
{
	struct stat state;

	want(stat(word[1], &state));
	want(truncate(word[1], (state.st_size / BLOCK + 1 + number(2)) * BLOCK));
}

/* fallocate FILE FLAGS OFFSET SIZE; the flags are letters: (k)eep size, (p)unch, (z)ero, (c)ollapse, (i)nsert, or - */
static void do_fallocate(void)
{
	static const struct {
		char letter;
		int flag;
	} flags[] = {
		{'k', FALLOC_FL_KEEP_SIZE}, {'p', FALLOC_FL_PUNCH_HOLE}, {'z', FALLOC_FL_ZERO_RANGE},
		{'c', FALLOC_FL_COLLAPSE_RANGE}, {'i', FALLOC_FL_INSERT_RANGE},
	};
	int fd = opened(O_RDWR | O_CREAT), mode = 0;

	for (size_t i = 0; i < sizeof(flags) / sizeof(*flags); i++)
		if (strchr(word[2], flags[i].letter))
			mode |= flags[i].flag;
	want(fallocate(fd, mode, number(3), number(4)));
	want(close(fd));
}

/* pieces FILE COUNT: every second block is a hole, so that each is an extent. */
static void do_pieces(void)
{
	int fd = opened(O_WRONLY | O_CREAT);
	char *made = bytes('p', BLOCK);

	for (long i = 0; i < number(2); i++)
		want(pwrite(fd, made, BLOCK, 2 * i * BLOCK));
	want(close(fd));
	free(made);
}

/* fill FOLDER COUNT: so many files with long names */
static void do_fill(void)
{
	char path[512];

	for (long i = 0; i < number(2); i++) {
		snprintf(path, sizeof(path), "%s/%0200ld", word[1], i);
		want(close(want(open(path, O_WRONLY | O_CREAT, 0644))));
	}
}

static void do_link(void)
{
	want(link(word[1], word[2]));
}

static void do_unlink(void)
{
	want(unlink(word[1]));
}

static void do_rename(void)
{
	want(rename(word[1], word[2]));
}

static void do_exchange(void)
{
	want(renameat2(AT_FDCWD, word[1], AT_FDCWD, word[2], RENAME_EXCHANGE));
}

static void do_whiteout(void)
{
	want(renameat2(AT_FDCWD, word[1], AT_FDCWD, word[2], RENAME_WHITEOUT));
}

/* symlink FILE SIZE: to a name of that size */
static void do_symlink(void)
{
	char target[BLOCK];

	memset(target, 't', sizeof(target));
	target[number(2) < BLOCK ? number(2) : BLOCK - 1] = 0;
	want(symlink(target, word[1]));
}

static void do_mkdir(void)
{
	want(mkdir(word[1], 0755));
}

static void do_rmdir(void)
{
	want(rmdir(word[1]));
}

static void do_mkfifo(void)
{
	want(mkfifo(word[1], 0600));
}

static void do_chmod(void)
{
	want(chmod(word[1], (mode_t)number(2)));
}

static void do_chown(void)
{
	want(chown(word[1], (uid_t)number(2), (gid_t)number(3)));
}

static void do_touch(void)
{
	want(utimensat(AT_FDCWD, word[1], NULL, 0));
}

/* chattr FILE FLAGS: FS_*_FL as a number */
static void do_chattr(void)
{
	int fd = opened(O_RDONLY), flags;

	want(ioctl(fd, FS_IOC_GETFLAGS, &flags));
	flags ^= (int)number(2);
	want(ioctl(fd, FS_IOC_SETFLAGS, &flags));
	want(close(fd));
}

/* setxattr FILE NAME SIZE LETTER */
static void do_setxattr(void)
{
	char *value = bytes(*word[4], number(3));

	want(setxattr(word[1], word[2], value, (size_t)number(3), 0));
	free(value);
}

static void do_removexattr(void)
{
	want(removexattr(word[1], word[2]));
}

/* acl FILE USER: the user may read (include/uapi/linux/posix_acl_xattr.h) */
static void do_acl(void)
{
	struct entry {
		uint16_t tag, permissions;
		uint32_t id;
	};
	struct {
		uint32_t version;
		struct entry entries[5];
	} acl = {2, {{1, 6, ~0u}, {2, 4, (uint32_t)number(2)}, {4, 4, ~0u}, {16, 4, ~0u}, {32, 0, ~0u}}};

	want(setxattr(word[1], "system.posix_acl_access", &acl, sizeof(acl), 0));
}

/* tmpfile FILE SIZE LETTER: made without a name, then linked */
static void do_tmpfile(void)
{
	int fd = want(open(".", O_TMPFILE | O_WRONLY, 0644));
	char *made = bytes(*word[3], number(2)), path[64];

	want(write(fd, made, (size_t)number(2)));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	want(linkat(AT_FDCWD, path, AT_FDCWD, word[1], AT_SYMLINK_FOLLOW));
	want(close(fd));
	free(made);
}

/* Removed while it is open, and then closed */
static void do_orphan(void)
{
	int fd = opened(O_RDWR);

	want(unlink(word[1]));
	want(close(fd));
}

/* From its first byte on, each byte that a file below FOLDER has becomes another. Holes stay. */
static int renew(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
	int fd = type == FTW_F && S_ISREG(stat->st_mode) ? want(open(path, O_RDWR)) : -1;
	static unsigned char buffer[BLOCK];
	off_t at = 0;

	(void)ftw;
	while (fd >= 0 && (at = lseek(fd, at, SEEK_DATA)) >= 0) {
		int count = want(pread(fd, buffer, (size_t)(BLOCK - at % BLOCK), at));

		for (int i = 0; i < count; i++)
			buffer[i]++;
		want(pwrite(fd, buffer, (size_t)count, at));
		at += count;
	}
	return fd >= 0 ? close(fd) : 0;
}

static void do_renew(void)
{
	want(nftw(word[1], renew, 32, FTW_PHYS));
}

static void do_fsync(void)
{
	int fd = opened(O_RDWR);

	want(fsync(fd));
	want(close(fd));
}

static const struct {
	const char *name;
	int words;
	void (*run)(void);
} verbs[] = {
	{"write", 5, do_write}, {"sync-write", 5, do_sync_write}, {"direct", 5, do_direct},
	{"append", 4, do_append}, {"mapped", 5, do_mapped},
	{"hole", 3, do_hole}, {"lengthen", 3, do_lengthen}, {"fault", 2, do_fault}, {"read", 2, do_read},
	{"sendfile", 3, do_sendfile}, {"create", 2, do_create}, {"empty", 2, do_empty}, {"truncate", 3, do_truncate},
	{"fallocate", 5, do_fallocate}, {"pieces", 3, do_pieces}, {"fill", 3, do_fill}, {"link", 3, do_link},
	{"unlink", 2, do_unlink}, {"rename", 3, do_rename}, {"exchange", 3, do_exchange},
	{"whiteout", 3, do_whiteout}, {"symlink", 3, do_symlink}, {"mkdir", 2, do_mkdir}, {"rmdir", 2, do_rmdir},
	{"mkfifo", 2, do_mkfifo}, {"chmod", 3, do_chmod}, {"chown", 4, do_chown}, {"touch", 2, do_touch},
	{"chattr", 3, do_chattr}, {"setxattr", 5, do_setxattr}, {"removexattr", 3, do_removexattr}, {"acl", 3, do_acl},
	{"tmpfile", 4, do_tmpfile}, {"orphan", 2, do_orphan}, {"fsync", 2, do_fsync}, {"renew", 2, do_renew},
};

void carry_out(int count, char **step)
{
	word = step;
	words = count;
	for (size_t i = 0; count && i < sizeof(verbs) / sizeof(*verbs); i++) {
		if (!strcmp(step[0], verbs[i].name) && count == verbs[i].words) {
			verbs[i].run();
			return;
		}
	}
	fprintf(stderr, "operation: %s: no such verb, or not with %d operands\n", count ? step[0] : "", count - 1);
	exit(2);
}
