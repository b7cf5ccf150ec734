// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "commands.h"
#include "model.h"
#include "util.h"

static uint8_t content[FILE_MAX];

static void make_dir(int root, const char *path)
{
	if (mkdirat(root, path, 0755))
		die(EXIT_ENVIRONMENT, "cannot make directory %s: %s; prepare wants an empty --dir", path,
		    strerror(errno));
}

static void make_file(int root, const char *path, size_t size)
{
	int fd = openat(root, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);

	for (size_t done = 0; fd >= 0 && done < size;) {
		ssize_t written = write(fd, content + done, size - done);

		if (written <= 0)
			break;
		done += (size_t)written;
		if (done == size && !close(fd))
			return;
	}
	die(EXIT_ENVIRONMENT, "cannot make file %s: %s", path, strerror(errno));
}

static void set_attribute(int root, const char *path, const struct node *twin, unsigned int most)
{
	size_t size = model_attribute(twin, most, content);
	int fd = openat(root, path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fsetxattr(fd, ATTRIBUTE, content, size, XATTR_CREATE))
		die(EXIT_ENVIRONMENT, "cannot set " ATTRIBUTE " of %s: %s", path, strerror(errno));
	close(fd);
}

static void set_time(int root, const char *path, const struct node *twin)
{
	struct timespec times[] = { { .tv_nsec = UTIME_OMIT }, { .tv_sec = model_mtime(twin) } };

	if (utimensat(root, path, times, 0))
		die(EXIT_ENVIRONMENT, "cannot set the time of %s: %s", path, strerror(errno));
}

static void make_tree(const struct model *model, int root, const struct node *dir, unsigned int xattrs)
{
	for (size_t i = 0; i < dir->children; i++) {
		const struct node *node = dir->child[i];
		char path[PATH_SIZE];

		node_path(node, path);
		if (node->type == NODE_DIR) {
			make_dir(root, path);
			make_tree(model, root, node, xattrs);
		} else {
			file_read(&node->file, model_seed_of(model, node), 0, content, node->file.size);
			make_file(root, path, node->file.size);
			if (node->twin && xattrs)
				set_attribute(root, path, node, xattrs);
			if (node->twin)
				set_time(root, path, node);
		}
	}
}

int command_prepare(const struct options *options)
{
	struct model model;
	int root;

	if (mkdir(options->dir, 0755) && errno != EEXIST)
		die(EXIT_ENVIRONMENT, "cannot make %s: %s", options->dir, strerror(errno));
	root = open(options->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (root < 0)
		die(EXIT_ENVIRONMENT, "cannot open directory %s: %s", options->dir, strerror(errno));
	model_init(&model, options->seed, options->max_bytes, options->twins, options->twin_bytes);
	make_tree(&model, root, model.root, options->xattrs);
	if (syncfs(root))
		die(EXIT_ENVIRONMENT, "cannot sync %s: %s", options->dir, strerror(errno));
	model_free(&model);
	close(root);
	return EXIT_EQUAL;
}
