// SPDX-License-Identifier: Apache-2.0
/* What a step does to the tree. */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/falloc.h>
#include <linux/fs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "ring.h"
#include "step.h"

static const struct step *current;
static char path[MAX_PATH], second_path[MAX_PATH + MAX_NAME];

/* The kernel said no, and the model knows of no reason. */
static _Noreturn void refused(void)
{
	int lacks = errno == ENOSYS || errno == EOPNOTSUPP || errno == ENOSPC || errno == ENOMEM;

	err(lacks ? LACKS : 1, "step %lu: %s: %s", current->number, operation_names[current->operation], path);
}

static void must(long result)
{
	if (result < 0)
		refused();
}

static int open_file(int flags)
{
	int file = open(path, flags | O_CLOEXEC);

	must(file);
	return file;
}

typedef ssize_t writer(int file, const unsigned char *bytes, size_t length, off_t offset);

static ssize_t by_pwrite(int file, const unsigned char *bytes, size_t length, off_t offset)
{
	return pwrite(file, bytes, length, offset);
}

static ssize_t by_write(int file, const unsigned char *bytes, size_t length, off_t offset)
{
	(void)offset; /* the end */
	return write(file, bytes, length);
}

static ssize_t by_writev(int file, const unsigned char *bytes, size_t length, off_t offset)
{
	struct iovec parts[3];
	size_t each = length / 3;

	for (size_t n = 0; n < 3; n++) {
		parts[n].iov_base = (void *)(uintptr_t)(bytes + n * each);
		parts[n].iov_len = n < 2 ? each : length - 2 * each;
	}
	return pwritev(file, parts, 3, offset);
}

static ssize_t by_ring(int file, const unsigned char *bytes, size_t length, off_t offset)
{
	return ring_write(file, bytes, length, offset);
}

static ssize_t by_splice(int file, const unsigned char *bytes, size_t length, off_t offset)
{
	static int ends[2];
	loff_t at = offset;
	ssize_t filled, moved = 0;

	if (!ends[1])
		must(pipe2(ends, O_CLOEXEC));
	filled = write(ends[1], bytes, length < 32768 ? length : 32768);
	must(filled);
	while (moved < filled) {
		ssize_t part = splice(ends[0], NULL, file, &at, (size_t)(filled - moved), 0);

		must(part);
		moved += part;
	}
	return moved;
}

static void write_all(int flags, writer *writer)
{
	size_t length = (size_t)current->length, done = 0;
	int file = open_file(flags);
	unsigned char *bytes = need(aligned_alloc(PAGE, (length + PAGE - 1) / PAGE * PAGE));

	pattern(current->seed, 0, bytes, length);
	while (done < length) {
		ssize_t part = writer(file, bytes + done, length - done, current->offset + (off_t)done);

		must(part);
		done += (size_t)part;
	}
	free(bytes);
	must(close(file));
}

static void store(const struct node *node)
{
	size_t length = (size_t)current->length, before = (size_t)current->offset % PAGE;
	int file = open_file(O_RDWR);
	unsigned char *mapped;

	if (current->offset + current->length > node->size)
		must(ftruncate(file, current->offset + current->length));
	mapped = mmap(NULL, before + length, PROT_READ | PROT_WRITE, MAP_SHARED, file,
		      current->offset - (off_t)before);
	must(mapped == MAP_FAILED ? -1 : 0);
	pattern(current->seed, 0, mapped + before, length);
	if (current->seed & 2)
		must(msync(mapped, before + length, MS_SYNC));
	must(munmap(mapped, before + length));
	must(close(file));
}

static void copy(const struct model *model)
{
	int file = open_file(O_WRONLY), from;
	off_t source = current->from, target = current->offset;

	model_path_of(model, current->other, second_path);
	from = open(second_path, O_RDONLY | O_CLOEXEC);
	must(from);
	must(lseek(file, target, SEEK_SET));
	for (off_t left = current->length; left;) {
		ssize_t part = current->operation == COPY
				       ? copy_file_range(from, &source, file, &target, (size_t)left, 0)
				       : sendfile(file, from, &source, (size_t)left);

		must(part);
		if (!part)
			errx(1, "step %lu: %s: %s ends early", current->number,
			     operation_names[current->operation], second_path);
		left -= part;
	}
	must(close(from));
	must(close(file));
}

static void allocate(void)
{
	static const int modes[OPERATIONS] = {
		[ALLOCATE_KEEP] = FALLOC_FL_KEEP_SIZE, [PUNCH] = FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		[ZERO] = FALLOC_FL_ZERO_RANGE, [ZERO_KEEP] = FALLOC_FL_ZERO_RANGE | FALLOC_FL_KEEP_SIZE,
		[COLLAPSE] = FALLOC_FL_COLLAPSE_RANGE, [INSERT] = FALLOC_FL_INSERT_RANGE,
	};
	int file = open_file(O_RDWR);

	must(fallocate(file, modes[current->operation], current->offset, current->length));
	must(close(file));
}

static void change_data(const struct model *model)
{
	model_path_of(model, current->node, path);
	switch (current->operation) {
	case WRITE:
		write_all(O_WRONLY, by_pwrite);
		break;
	case APPEND:
		write_all(O_WRONLY | O_APPEND, by_write);
		break;
	case WRITEV:
		write_all(O_WRONLY, by_writev);
		break;
	case DIRECT:
		write_all(O_WRONLY | O_DIRECT, by_pwrite);
		break;
	case URING:
		write_all(O_WRONLY, by_ring);
		break;
	case SPLICE:
		write_all(O_WRONLY, by_splice);
		break;
	case STORE:
		store(&model->nodes[current->node]);
		break;
	case SENDFILE:
	case COPY:
		copy(model);
		break;
	case SHRINK:
	case GROW:
		must(truncate(path, current->length));
		break;
	default:
		allocate();
	}
}

/* A file without a name gets its content first. */
static void make_unnamed(const struct model *model)
{
	char link[64];
	unsigned char *bytes = need(malloc((size_t)current->length));
	int file;

	model_path_of(model, current->directory, second_path);
	file = open(second_path, O_TMPFILE | O_WRONLY | O_CLOEXEC, current->value);
	must(file);
	pattern(current->seed, 0, bytes, (size_t)current->length);
	if (pwrite(file, bytes, (size_t)current->length, current->offset) != current->length)
		refused();
	free(bytes);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", file);
	must(linkat(AT_FDCWD, link, AT_FDCWD, path, AT_SYMLINK_FOLLOW));
	must(close(file));
}

static void make(const struct model *model)
{
	switch (current->operation) {
	case UNNAMED:
		make_unnamed(model);
		break;
	case MKDIR:
		must(mkdir(path, current->value));
		break;
	case SYMBOLIC:
		must(symlink(current->text, path));
		break;
	case MKFIFO:
		must(mkfifo(path, current->value));
		break;
	default:
		must(close(open(path, O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, current->value)));
	}
}

static void change_names(const struct model *model)
{
	if (current->name >= 0)
		model_path(model, current->name, path);
	switch (current->operation) {
	case UNLINK:
	case DRAIN:
		must(unlink(path));
		return;
	case RMDIR:
		must(rmdir(path));
		return;
	case REPLACE:
	case EXCHANGE:
		model_path(model, current->other_name, second_path);
		must(renameat2(AT_FDCWD, path, AT_FDCWD, second_path,
			       current->operation == EXCHANGE ? RENAME_EXCHANGE : 0));
		return;
	default:
		break;
	}
	model_path_of(model, current->directory, second_path);
	strcat(strcat(second_path, "/"), current->text);
	if (current->operation == MOVE) {
		must(renameat2(AT_FDCWD, path, AT_FDCWD, second_path, RENAME_NOREPLACE));
	} else if (current->operation == LINK) {
		model_path_of(model, current->node, path);
		must(link(path, second_path));
	} else {
		strcpy(path, second_path);
		make(model);
	}
}

static void set_flag(void)
{
	int file = open_file(O_RDONLY), flags;

	must(ioctl(file, FS_IOC_GETFLAGS, &flags));
	flags &= ~(FS_APPEND_FL | FS_IMMUTABLE_FL);
	if (current->operation == FLAG)
		flags |= current->value == 'a' ? FS_APPEND_FL : FS_IMMUTABLE_FL;
	must(ioctl(file, FS_IOC_SETFLAGS, &flags));
	must(close(file));
}

static void change_attributes(const struct model *model)
{
	/* Any times, after 1970 and before 2106. */
	struct timespec times[2] = { { .tv_sec = current->value, .tv_nsec = 1 },
				     { .tv_sec = (time_t)current->second * 60000, .tv_nsec = current->value } };
	unsigned char value[MAX_XATTR], acl_bytes[ACL_LENGTH];
	struct acl acl;
	char name[16];

	model_path_of(model, current->node, path);
	snprintf(name, sizeof(name), "user.%u", current->value);
	switch (current->operation) {
	case CHMOD:
		must(chmod(path, current->value));
		break;
	case CHOWN:
		must(lchown(path, current->value, current->second));
		break;
	case TIMES:
		must(utimensat(AT_FDCWD, path, times, AT_SYMLINK_NOFOLLOW));
		break;
	case SET_XATTR:
		pattern(current->seed, 0, value, (size_t)current->length);
		must(setxattr(path, name, value, (size_t)current->length, 0));
		break;
	case REMOVE_XATTR:
		must(removexattr(path, name));
		break;
	case SET_ACL:
		acl = step_acl(current);
		acl_value(&acl, current->value, acl_bytes);
		must(setxattr(path, ACL_NAME, acl_bytes, sizeof(acl_bytes), 0));
		break;
	case REMOVE_ACL:
		must(removexattr(path, ACL_NAME));
		break;
	default:
		set_flag();
	}
}

void step_act(const struct model *model, const struct step *step)
{
	current = step;
	if (step->operation < CREATE)
		change_data(model);
	else if (step->operation < CHMOD)
		change_names(model);
	else
		change_attributes(model);
}
