/* SPDX-License-Identifier: Apache-2.0 */
#include "restored_file.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

/* File handle of ext4: include/linux/exportfs.h, FILEID_INO32_GEN */
#define HANDLE_INO32_GEN 1

/* A write takes it away (security/commoncap.c, cap_inode_killpriv()). */
#define CAPABILITY "security.capability"

static int open_handle(int mount_fd, uint32_t ino, uint32_t generation, int how)
{
	union {
		struct file_handle handle;
		char room[sizeof(struct file_handle) + 8];
	} u = { .handle = { .handle_bytes = 8, .handle_type = HANDLE_INO32_GEN } };
	uint32_t id[2] = { ino, generation };

	memcpy(u.handle.f_handle, id, sizeof(id));
	return open_by_handle_at(mount_fd, &u.handle, how | O_CLOEXEC | O_NONBLOCK);
}

/* Opens an append-only file for writing anywhere; -1 with errno, EPERM if it refuses for another reason. */
static int open_append_only(int mount_fd, uint32_t ino, uint32_t generation, int *flags)
{
	int fd = open_handle(mount_fd, ino, generation, O_RDONLY), without, writable = -1;

	if (fd < 0)
		return -1;
	if (ioctl(fd, FS_IOC_GETFLAGS, flags) || !(*flags & FS_APPEND_FL) ||
	    *flags & FS_IMMUTABLE_FL) {
		*flags = 0;
		errno = EPERM;
	} else {
		without = *flags & ~FS_APPEND_FL;
		if (!ioctl(fd, FS_IOC_SETFLAGS, &without))
			writable = open_handle(mount_fd, ino, generation, O_RDWR);
		if (writable < 0)
			ioctl(fd, FS_IOC_SETFLAGS, flags);
	}
	close(fd);
	return writable;
}

int restored_file_open(struct restored_file *file, int mount_fd, uint32_t ino, uint32_t generation)
{
	struct stat st;

	*file = (struct restored_file){ .fd = open_handle(mount_fd, ino, generation, O_RDWR) };
	if (file->fd < 0 && errno == EPERM)
		file->fd = open_append_only(mount_fd, ino, generation, &file->flags);
	/* A directory, a link, a device or a socket: damage made the file one, or the file is gone. */
	if (file->fd < 0 && (errno == EISDIR || errno == ELOOP || errno == EACCES || errno == ENXIO))
		return -ESTALE;
	if (file->fd < 0)
		return -errno;
	if (fstat(file->fd, &st) || !S_ISREG(st.st_mode)) {
		close(file->fd);
		file->fd = -1;
		return -ESTALE;
	}
	file->size = st.st_size;
	file->times[0] = st.st_atim;
	file->times[1] = st.st_mtim;
	file->capability_size = fgetxattr(file->fd, CAPABILITY, file->capability,
					  sizeof(file->capability));
	return 0;
}

int restored_file_write(struct restored_file *file, const void *content, size_t size, off_t at)
{
	return pwrite(file->fd, content, size, at) == (ssize_t)size ? 0 : -1;
}

int restored_file_write_direct(struct restored_file *file, const void *content, size_t size, off_t at)
{
	int err;

	/* A file system that knows no direct writes refuses the flag. */
	if (fcntl(file->fd, F_SETFL, O_DIRECT))
		return -1;
	err = restored_file_write(file, content, size, at);
	return fcntl(file->fd, F_SETFL, 0) ? -1 : err;
}

int restored_file_put_back(struct restored_file *file)
{
	int err = 0;

	if (file->capability_size > 0 &&
	    fsetxattr(file->fd, CAPABILITY, file->capability, (size_t)file->capability_size, 0))
		err = -errno;
	if (futimens(file->fd, file->times))
		err = -errno;
	/* Last: an append-only file takes no times. */
	if (file->flags && ioctl(file->fd, FS_IOC_SETFLAGS, &file->flags))
		err = -errno;
	return err;
}

void restored_file_close(struct restored_file *file)
{
	close(file->fd);
	file->fd = -1;
}
