// SPDX-License-Identifier: Apache-2.0
#include "compare.h"

#include <dirent.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#define PIECE (64 << 10)
#define MOST 50 /* differences that are written; all are counted */

static FILE *out;
static int count;

__attribute__((format(printf, 2, 3))) static void differs(const char *path, const char *how, ...)
{
	va_list arguments;

	if (count++ >= MOST)
		return;
	va_start(arguments, how);
	fprintf(out, "%s: ", path);
	vfprintf(out, how, arguments);
	fputc('\n', out);
	va_end(arguments);
}

static bool readable(int result, const char *path, const char *what)
{
	if (result < 0)
		differs(path, "cannot %s: %s", what, strerror(errno));
	return result >= 0;
}

/* The first byte that is neither `node`'s nor `old`'s; -1: there is none. */
static off_t wrong_byte(int file, const struct node *node, const struct node *old, off_t size)
{
	static unsigned char is[PIECE], expected[PIECE], earlier[PIECE];

	for (off_t at = 0; at < size; at += PIECE) {
		size_t length = size - at < PIECE ? (size_t)(size - at) : PIECE;

		if (pread(file, is, length, at) != (ssize_t)length)
			return at;
		data_get(node, at, expected, length);
		if (!memcmp(is, expected, length))
			continue;
		if (old)
			data_get(old, at, earlier, length);
		for (size_t n = 0; n < length; n++)
			if (is[n] != expected[n] && !(old && is[n] == earlier[n]))
				return at + (off_t)n;
	}
	return -1;
}

/* A step in flight that writes into a file makes it longer or leaves its size as it is. */
static bool size_right(off_t size, const struct node *node, const struct node *old)
{
	return old ? old->size <= size && size <= node->size : size == node->size;
}

static void compare_flags(int file, const char *path, const struct node *node)
{
	int flags, expected = node->flag == 'a' ? FS_APPEND_FL : node->flag == 'i' ? FS_IMMUTABLE_FL : 0;

	if (!readable(ioctl(file, FS_IOC_GETFLAGS, &flags), path, "get flags"))
		return;
	if ((flags & (FS_APPEND_FL | FS_IMMUTABLE_FL)) != expected)
		differs(path, "flags %#x instead of %#x", flags, expected);
}

static void compare_file(const char *path, const struct node *node, const struct node *old, off_t size)
{
	int file;
	off_t wrong;

	if (!size_right(size, node, old)) {
		differs(path, "size %lld instead of %lld", (long long)size, (long long)node->size);
		return;
	}
	file = open(path, O_RDONLY | O_CLOEXEC | O_NOATIME);
	if (!readable(file, path, "open"))
		return;
	wrong = wrong_byte(file, node, old, size);
	if (wrong >= 0)
		differs(path, "content differs from byte %lld on, size %lld", (long long)wrong, (long long)size);
	compare_flags(file, path, node);
	close(file);
}

/* Returns how long its name is in a list of attributes. */
static ssize_t compare_acl(const char *path, const struct node *node)
{
	unsigned char is[ACL_LENGTH], expected[ACL_LENGTH];

	if (!node->acl.set)
		return 0;
	acl_value(&node->acl, node->mode, expected);
	if (getxattr(path, ACL_NAME, is, sizeof(is)) != sizeof(is) || memcmp(is, expected, sizeof(is)))
		differs(path, "another ACL, or none");
	return (ssize_t)sizeof(ACL_NAME);
}

static void compare_xattrs(const char *path, const struct node *node)
{
	unsigned char is[MAX_XATTR], expected[MAX_XATTR];
	char name[16], list[1024];
	ssize_t listed = listxattr(path, list, sizeof(list)), names = 0;

	for (int n = 0; n < XATTRS; n++) {
		const struct xattr *xattr = &node->xattrs[n];
		ssize_t length;

		if (!xattr->seed)
			continue;
		snprintf(name, sizeof(name), "user.%d", n);
		names += (ssize_t)strlen(name) + 1;
		length = getxattr(path, name, is, sizeof(is));
		pattern(xattr->seed, 0, expected, xattr->length);
		if (length < 0)
			differs(path, "attribute %s: %s", name, strerror(errno));
		else if ((size_t)length != xattr->length || memcmp(is, expected, xattr->length))
			differs(path, "attribute %s has another value", name);
	}
	names += compare_acl(path, node);
	if (listed != names)
		differs(path, "%zd bytes of attributes' names instead of %zd", listed, names);
}

static void compare_status(const struct model *model, const char *path, int number, struct node *node,
			   const struct stat *status)
{
	nlink_t links = (nlink_t)node->links;

	if (node->type == DIRECTORY)
		links = 2 + (nlink_t)model_subdirectories(model, number);
	if ((status->st_mode & 07777) != node->mode)
		differs(path, "mode %o instead of %o", status->st_mode & 07777, node->mode);
	if (status->st_uid != node->uid || status->st_gid != node->gid)
		differs(path, "owner %u:%u instead of %u:%u", status->st_uid, status->st_gid, node->uid, node->gid);
	if (status->st_nlink != links)
		differs(path, "%ju links instead of %ju", (uintmax_t)status->st_nlink, (uintmax_t)links);
	if (node->timed && (status->st_mtim.tv_sec != node->seconds || status->st_mtim.tv_nsec != node->nanoseconds))
		differs(path, "modified at %jd.%09ld instead of %jd.%09ld", (intmax_t)status->st_mtim.tv_sec,
			status->st_mtim.tv_nsec, (intmax_t)node->seconds, node->nanoseconds);
	if (node->inode && node->inode != status->st_ino)
		differs(path, "is not the file that its other name is");
	node->inode = status->st_ino;
}

static void compare_node(struct model *model, const char *path, int number, const struct node *old)
{
	static const mode_t types[] = {
		[REGULAR] = S_IFREG, [DIRECTORY] = S_IFDIR, [SYMLINK] = S_IFLNK, [FIFO] = S_IFIFO,
	};
	struct node *node = &model->nodes[number];
	char target[MAX_NAME] = "";
	struct stat status;

	if (!readable(lstat(path, &status), path, "stat"))
		return;
	if ((status.st_mode & S_IFMT) != types[node->type]) {
		differs(path, "type %o instead of %o", status.st_mode & S_IFMT, types[node->type]);
		return;
	}
	compare_status(model, path, number, node, &status);
	if (node->type == REGULAR)
		compare_file(path, node, old, status.st_size);
	if (node->type != SYMLINK)
		compare_xattrs(path, node);
	if (node->type == SYMLINK) {
		if (!readable((int)readlink(path, target, sizeof(target) - 1), path, "read link"))
			return;
		if (strcmp(target, node->target))
			differs(path, "leads elsewhere");
	}
}

static void compare_directory(struct model *model, int directory, int mixed, const struct node *old)
{
	char path[MAX_PATH], entry_path[MAX_PATH + 256];
	struct dirent *entry;
	DIR *stream;

	model_path_of(model, directory, path);
	stream = opendir(path);
	if (!readable(stream ? 0 : -1, path, "open"))
		return;
	while ((errno = 0, entry = readdir(stream))) {
		int name = model_lookup(model, directory, entry->d_name);

		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		snprintf(entry_path, sizeof(entry_path), "%s/%s", path, entry->d_name);
		if (name < 0) {
			differs(entry_path, "extra");
			continue;
		}
		int node = model->names[name].node;
		bool is_directory = model->nodes[node].type == DIRECTORY;

		if (model->names[name].seen)
			differs(entry_path, "is there twice");
		else
			compare_node(model, entry_path, node, node == mixed ? old : NULL);
		if (is_directory && !model->names[name].seen)
			compare_directory(model, node, mixed, old);
		model->names[name].seen = true;
	}
	if (errno)
		differs(path, "cannot read: %s", strerror(errno));
	closedir(stream);
}

int compare(struct model *model, int mixed, const struct node *old, FILE *differences)
{
	char path[MAX_PATH];

	out = differences;
	count = 0;
	for (int n = 0; n < MAX_NODES; n++)
		model->nodes[n].inode = 0;
	for (int n = 0; n < MAX_NAMES; n++)
		model->names[n].seen = false;
	compare_node(model, ".", ROOT, NULL);
	compare_directory(model, ROOT, mixed, old);
	for (int n = 0; n < model->last_name; n++)
		if (model->names[n].node >= 0 && !model->names[n].seen) {
			model_path(model, n, path);
			differs(path, "missing");
		}
	return count;
}
