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

#include "rio_registry.h"

/* ext4 superblock: fs/ext4/ext4.h, struct ext4_super_block */
#define SB_OFFSET	1024
#define SB_LOG_BLOCK	0x18
#define SB_MAGIC	0x38
#define SB_UUID		0x68
#define SB_MKFS_TIME	0x108
#define SB_END		(SB_OFFSET + 1024)
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

struct superblock superblock_read(const uint8_t *block)
{
	const uint8_t *sb = block + SB_OFFSET;
	struct superblock found = { .valid = true };
	uint16_t magic;
	uint32_t log_block;

	memcpy(&magic, sb + SB_MAGIC, sizeof(magic));
	memcpy(&log_block, sb + SB_LOG_BLOCK, sizeof(log_block));
	if (le16toh(magic) != EXT4_MAGIC || le32toh(log_block) != 2)
		return (struct superblock){ .valid = false };
	memcpy(found.uuid, sb + SB_UUID, sizeof(found.uuid));
	memcpy(&found.made, sb + SB_MKFS_TIME, sizeof(found.made));
	found.made = le32toh(found.made);
	return found;
}

int device_open(struct device *device, const char *path, bool writable)
{
	uint8_t block[SB_END];
	uint64_t size;
	int err = 0;

	device->fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (device->fd < 0 || device_size(device->fd, &size))
		err = errno;
	else if (pread(device->fd, block, sizeof(block), 0) != sizeof(block))
		err = EIO;
	if (err) {
		fprintf(stderr, "riorecover: %s: %s\n", path, strerror(err));
		if (device->fd >= 0)
			close(device->fd);
		return -err;
	}
	device->blocks = size / RIO_PAGE_SIZE;
	device->superblock = superblock_read(block);
	return 0;
}
