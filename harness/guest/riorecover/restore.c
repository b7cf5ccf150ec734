/* SPDX-License-Identifier: Apache-2.0 */
#include "restore.h"

#include <endian.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "restored_file.h"

/* ext4 superblock: fs/ext4/ext4.h, struct ext4_super_block */
#define SB_OFFSET	1024
#define SB_LOG_BLOCK	0x18
#define SB_MAGIC	0x38
#define SB_UUID		0x68
#define EXT4_MAGIC	0xef53

static int complain(const char *path, int err)
{
	fprintf(stderr, "riorecover: %s: %s\n", path, strerror(err));
	return -err;
}

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

int device_open(struct device *device, const char *path, bool writable)
{
	uint8_t sb[1024];
	uint64_t size;
	uint16_t magic;
	uint32_t log_block;

	device->fd = open(path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC);
	if (device->fd < 0 || device_size(device->fd, &size))
		return complain(path, errno);
	if (pread(device->fd, sb, sizeof(sb), SB_OFFSET) != sizeof(sb))
		return complain(path, EIO);
	memcpy(&magic, sb + SB_MAGIC, sizeof(magic));
	memcpy(&log_block, sb + SB_LOG_BLOCK, sizeof(log_block));
	memcpy(device->uuid, sb + SB_UUID, sizeof(device->uuid));
	device->blocks = size / RIO_PAGE_SIZE;
	if (le16toh(magic) != EXT4_MAGIC || le32toh(log_block) != 2) {
		close(device->fd);
		fprintf(stderr, "riorecover: %s: no ext4 file system with blocks of %d bytes\n",
			path, RIO_PAGE_SIZE);
		return -EINVAL;
	}
	return 0;
}

int restore_metadata(const struct registry *registry, struct memory *memory,
		     const struct device *device, struct metadata_counts *counts)
{
	for (uint64_t i = 0; i < registry->nr_pages; i++) {
		const struct page *page = &registry->pages[i];
		const void *content;

		if (page->ino)
			break; /* sorted: only file data from here on */
		content = memory_at(memory, page->address, RIO_PAGE_SIZE);
		if (content && pwrite(device->fd, content, RIO_PAGE_SIZE,
				      (off_t)(page->index * RIO_PAGE_SIZE)) == RIO_PAGE_SIZE)
			counts->written++;
		else
			counts->failed++;
	}
	return fsync(device->fd) ? complain("device", errno) : 0;
}

/*
 * A file's size comes from the restored inode and is never changed. It does not
 * come from the entry: a growing file gets its new size in the inode first, and
 * the rest of the page, which is zeros, is then part of the file.
 */
static void restore_page(const struct restored_file *file, const struct page *page,
			 struct memory *memory, struct data_counts *counts)
{
	off_t offset = (off_t)(page->index * RIO_PAGE_SIZE);
	size_t length = RIO_PAGE_SIZE;
	const void *content = memory_at(memory, page->address, RIO_PAGE_SIZE);

	if (offset >= file->size) {
		counts->beyond_size++;
		return;
	}
	if ((off_t)length > file->size - offset)
		length = (size_t)(file->size - offset);
	if (!content || pwrite(file->fd, content, length, offset) != (ssize_t)length) {
		counts->failed++;
		return;
	}
	counts->pages++;
	counts->bytes += length;
}

/* What cannot be put back is told; the data is there. */
static void close_file(struct restored_file *file, const struct page *page)
{
	int err = restored_file_close(file);

	if (err)
		fprintf(stderr, "riorecover: inode %u: its attributes: %s\n", page->ino, strerror(-err));
}

int restore_data(const struct registry *registry, struct memory *memory,
		 const char *mount_point, struct data_counts *counts)
{
	int mount_fd = open(mount_point, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	struct restored_file file = { .fd = -1 };
	const struct page *last = NULL;
	int opened = 0, err = 0;

	if (mount_fd < 0)
		return complain(mount_point, errno);
	for (uint64_t i = 0; i < registry->nr_pages; i++) {
		const struct page *page = &registry->pages[i];

		if (!page->ino)
			continue;
		if (!last || page->ino != last->ino ||
		    page->generation != last->generation) {
			close_file(&file, last);
			opened = restored_file_open(&file, mount_fd, page->ino, page->generation);
			counts->files += !opened;
		}
		last = page;
		if (!opened)
			restore_page(&file, page, memory, counts);
		else if (opened == -ESTALE)
			counts->lost_inodes++;
		else
			counts->failed++;
	}
	close_file(&file, last);
	if (syncfs(mount_fd))
		err = complain(mount_point, errno);
	close(mount_fd);
	return err;
}
