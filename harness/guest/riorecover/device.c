/* SPDX-License-Identifier: Apache-2.0 */
#include "device.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

/* ext4 superblock: fs/ext4/ext4.h, struct ext4_super_block */
#define SB_LOG_BLOCK	0x18
#define SB_MTIME	0x2c
#define SB_MNT_COUNT	0x34
#define SB_MAGIC	0x38
#define SB_UUID		0x68
#define SB_MKFS_TIME	0x108
#define SB_SIZE		1024
#define EXT4_MAGIC	0xef53

int device_size(int fd, uint64_t *size)
{
	struct stat st;

	if (fstat(fd, &st))
		return -1;
	if (S_ISBLK(st.st_mode))
		return ioctl(fd, BLKGETSIZE64, size);
	*size = (uint64_t)st.st_size;
	return 0;
}

uint32_t number_at(const uint8_t *at)
{
	uint32_t value;

	memcpy(&value, at, sizeof(value));
	return le32toh(value);
}

struct superblock superblock_read(const uint8_t *sb)
{
	struct superblock found = { .valid = true };

	if ((number_at(sb + SB_MAGIC) & 0xffff) != EXT4_MAGIC || number_at(sb + SB_LOG_BLOCK) != 2)
		return (struct superblock){ .valid = false };
	memcpy(found.uuid, sb + SB_UUID, sizeof(found.uuid));
	found.made = number_at(sb + SB_MKFS_TIME);
	found.mounted = number_at(sb + SB_MTIME);
	found.mounts = number_at(sb + SB_MNT_COUNT) & 0xffff;
	return found;
}

/* Reads a superblock at an offset; false if that failed. */
static bool read_superblock(const struct device *device, uint64_t at, struct superblock *superblock)
{
	uint8_t sb[SB_SIZE];

	if (pread(device->fd, sb, sizeof(sb), (off_t)at) != sizeof(sb))
		return false;
	*superblock = superblock_read(sb);
	return true;
}

int device_open(struct device *device, const char *path, bool writable)
{
	uint64_t size;
	int err = 0;

	*device = (struct device){ 0 };
	device->fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (device->fd < 0 || device_size(device->fd, &size))
		err = errno;
	else if (!read_superblock(device, SUPERBLOCK_OFFSET, &device->superblock))
		err = EIO;
	if (err) {
		fprintf(stderr, "riorecover: %s: %s\n", path, strerror(err));
		if (device->fd >= 0)
			close(device->fd);
		return -err;
	}
	device->blocks = size / RIO_PAGE_SIZE;
	/* A backup that cannot be read is none. */
	if (device->blocks > BACKUP_BLOCK)
		read_superblock(device, BACKUP_BLOCK * RIO_PAGE_SIZE, &device->backup);
	return 0;
}
