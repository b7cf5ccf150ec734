// SPDX-License-Identifier: Apache-2.0
#include "entry.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/xattr.h>
#include <unistd.h>

const char *type_name(mode_t mode)
{
	return S_ISREG(mode) ? "file" : S_ISDIR(mode) ? "dir" : S_ISLNK(mode) ? "symlink" :
	       S_ISFIFO(mode) ? "fifo" : S_ISSOCK(mode) ? "socket" : S_ISCHR(mode) ? "character device" :
	       S_ISBLK(mode) ? "block device" : "unknown type";
}

void join_path(char *path, size_t size, const char *dir, const char *name)
{
	if (strcmp(dir, "."))
		snprintf(path, size, "%s/%s", dir, name);
	else
		snprintf(path, size, "%s", name);
}

/* Twins have one if they were made so; nothing else has any. */
static void check_attributes(struct report *report, int fd, const struct about *about, const char *path)
{
	bool one = about->twin && about->xattrs;
	uint8_t right[ATTRIBUTE_MAX], found[ATTRIBUTE_MAX];
	ssize_t names = flistxattr(fd, NULL, 0);
	size_t size = one ? model_attribute(about->twin, about->xattrs, right) : 0;

	if (names < 0 && (one || errno != ENOTSUP))
		report_add(report, DIFFERENCE_UNREADABLE, path, 0, 0, "flistxattr: %s", strerror(errno));
	else if (!one && names > 0)
		report_add(report, DIFFERENCE_METADATA, path, 0, 0, "extended attributes, should have none");
	else if (one && (names != sizeof(ATTRIBUTE) ||
			 fgetxattr(fd, ATTRIBUTE, found, sizeof(found)) != (ssize_t)size ||
			 memcmp(found, right, size)))
		report_add(report, DIFFERENCE_METADATA, path, 0, 0,
			   "extended attributes, should have " ATTRIBUTE " alone, of %zu bytes", size);
}

/* What the model knows of an inode beside its content. Nobody but memtest made it, and it made all alike. */
void check_metadata(struct report *report, int fd, const struct about *about, const char *path)
{
	mode_t mode = about->is_dir ? 0755 : 0644;
	struct stat stat;

	if (fstat(fd, &stat)) {
		report_add(report, DIFFERENCE_UNREADABLE, path, 0, 0, "fstat: %s", strerror(errno));
		return;
	}
	if ((stat.st_mode & 07777) != mode)
		report_add(report, DIFFERENCE_METADATA, path, 0, 0, "mode %04o, should be %04o",
			   (unsigned int)stat.st_mode & 07777, (unsigned int)mode);
	if (stat.st_uid != geteuid() || stat.st_gid != getegid())
		report_add(report, DIFFERENCE_METADATA, path, 0, 0, "owner %u:%u, should be %u:%u",
			   (unsigned int)stat.st_uid, (unsigned int)stat.st_gid, (unsigned int)geteuid(),
			   (unsigned int)getegid());
	/* Those of directories follow from their names, which are compared. */
	if (!about->is_dir && stat.st_nlink != 1 && !about->linked)
		report_add(report, DIFFERENCE_METADATA, path, 0, 0, "%llu links, should be 1",
			   (unsigned long long)stat.st_nlink);
	if (about->twin && stat.st_mtime != model_mtime(about->twin))
		report_add(report, DIFFERENCE_METADATA, path, 0, 0, "mtime %lld, should be %lld",
			   (long long)stat.st_mtime, (long long)model_mtime(about->twin));
	check_attributes(report, fd, about, path);
}
