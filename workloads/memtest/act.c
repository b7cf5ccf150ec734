// SPDX-License-Identifier: Apache-2.0
#include "act.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "content.h"
#include "util.h"

/*
 * A copy of the kernel may go this far beyond what was asked for (copy_overrun), and must hit nothing else of ours: a
 * workload that was hit itself writes what nobody can tell from damage.
 */
#define ROOM 8192

static uint8_t content[FILE_MAX], found[FILE_MAX + ROOM];
static struct {
	struct stat stat;
	uint8_t room[ROOM];
} told;

/* Notes a system call that failed, with errno. Returns false, for the caller to return. */
static bool failed(struct actor *actor, const char *call, const char *path)
{
	const char *name = strerrorname_np(errno);
	char subject[PATH_SIZE];

	actor->status = EXIT_SYSCALL;
	snprintf(actor->how, sizeof(actor->how), "%s", name ? name : "EUNKNOWN");
	step_path(actor->step, subject);
	snprintf(actor->text, sizeof(actor->text), "%s %s %s %s%s%s", actor->how, step_names[actor->step->kind], subject,
		 call, strcmp(path, subject) ? " " : "", strcmp(path, subject) ? path : "");
	return false;
}

/* Notes that what was read is not what must be there. Returns false, too. */
__attribute__((format(printf, 3, 4)))
static bool mismatch(struct actor *actor, const char *path, const char *format, ...)
{
	char what[128];
	va_list args;

	va_start(args, format);
	vsnprintf(what, sizeof(what), format, args);
	va_end(args);
	actor->status = EXIT_DIFFERS;
	strcpy(actor->how, "mismatch");
	snprintf(actor->text, sizeof(actor->text), "%s read %s %s", actor->how, path, what);
	return false;
}

static bool finish(struct actor *actor, int fd, const char *path)
{
	if (actor->fsync && fsync(fd)) {
		failed(actor, "fsync", path);
		close(fd);
		return false;
	}
	return close(fd) ? failed(actor, "close", path) : true;
}

/* Makes the names in a directory durable. */
static bool sync_dir(struct actor *actor, const char *path)
{
	int fd;

	if (!actor->fsync)
		return true;
	fd = openat(actor->root, path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	return fd < 0 ? failed(actor, "open", path) : finish(actor, fd, path);
}

static bool sync_node(struct actor *actor, const struct node *dir)
{
	char path[PATH_SIZE];

	node_path(dir, path);
	return sync_dir(actor, path);
}

static bool do_create(struct actor *actor, const struct step *step)
{
	char path[PATH_SIZE];
	int fd;

	step_new_path(step, path);
	fd = openat(actor->root, path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return failed(actor, "create", path);
	return finish(actor, fd, path) && sync_node(actor, step->parent);
}

static bool do_mkdir(struct actor *actor, const struct step *step)
{
	char path[PATH_SIZE];

	step_new_path(step, path);
	if (mkdirat(actor->root, path, 0755))
		return failed(actor, "mkdir", path);
	return sync_dir(actor, path) && sync_node(actor, step->parent);
}

static bool do_remove(struct actor *actor, const struct step *step)
{
	bool dir = step->kind == STEP_RMDIR;
	char path[PATH_SIZE];

	node_path(step->node, path);
	if (unlinkat(actor->root, path, dir ? AT_REMOVEDIR : 0))
		return failed(actor, dir ? "rmdir" : "unlink", path);
	return sync_node(actor, step->node->parent);
}

static bool do_rename(struct actor *actor, const struct step *step)
{
	char old[PATH_SIZE], new[PATH_SIZE];

	node_path(step->node, old);
	step_new_path(step, new);
	if (renameat(actor->root, old, actor->root, new))
		return failed(actor, "rename", old);
	/* The new name first; and a directory that moves has a new "..". */
	return sync_node(actor, step->parent) &&
	       (step->parent == step->node->parent || sync_node(actor, step->node->parent)) &&
	       (step->node->type == NODE_FILE || sync_dir(actor, new));
}

/* The kernel is being broken: whether it moved 1 to @most bytes. If not, errno says why. */
static bool moved(ssize_t result, size_t most)
{
	if (result == 0 || (result > 0 && (size_t)result > most))
		errno = EIO;
	return result > 0 && (size_t)result <= most;
}

static bool write_all(int fd, const struct step *step)
{
	size_t done = 0;

	while (done < step->length) {
		const uint8_t *from = content + done;
		size_t left = step->length - done;
		ssize_t written = step->kind == STEP_APPEND ? write(fd, from, left)
							     : pwrite(fd, from, left, (off_t)(step->offset + done));

		if (!moved(written, left))
			return false;
		done += (size_t)written;
	}
	return true;
}

static bool do_change(struct actor *actor, const struct step *step)
{
	int append = step->kind == STEP_APPEND ? O_APPEND : 0;
	char path[PATH_SIZE];
	bool well;
	int fd;

	node_path(step->node, path);
	fd = openat(actor->root, path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC | append);
	if (fd < 0)
		return failed(actor, "open", path);
	if (step->kind == STEP_TRUNCATE) {
		well = !ftruncate(fd, (off_t)step->offset);
	} else {
		content_fill(actor->model->seed, step->number, step->offset, content, step->length);
		well = write_all(fd, step);
	}
	if (!well) {
		failed(actor, step->kind == STEP_TRUNCATE ? "ftruncate" : "write", path);
		close(fd);
		return false;
	}
	return finish(actor, fd, path);
}

/* Reads the step's range into found[]; how many bytes there were, or -1. */
static ssize_t read_all(int fd, const struct step *step)
{
	size_t done = 0;

	while (done < step->length) {
		size_t left = step->length - done;
		ssize_t got = pread(fd, found + done, left, (off_t)(step->offset + done));

		if (!got)
			break;
		if (!moved(got, left))
			return -1;
		done += (size_t)got;
	}
	return (ssize_t)done;
}

static bool check_read(struct actor *actor, const struct step *step, int fd, const char *path)
{
	const struct file *file = &step->node->file;
	ssize_t got;

	if (fstat(fd, &told.stat))
		return failed(actor, "fstat", path);
	if ((uint64_t)told.stat.st_size != file->size)
		return mismatch(actor, path, "size %lld, should be %llu", (long long)told.stat.st_size,
				(unsigned long long)file->size);
	got = read_all(fd, step);
	if (got < 0)
		return failed(actor, "read", path);
	if ((uint64_t)got != step->length)
		return mismatch(actor, path, "read ends after %zd of %llu bytes", got,
				(unsigned long long)step->length);
	file_read(file, actor->model->seed, step->offset, content, step->length);
	for (size_t i = 0; i < step->length; i++)
		if (content[i] != found[i])
			return mismatch(actor, path, "offset %llu holds %02x, should be %02x",
					(unsigned long long)(step->offset + i), found[i], content[i]);
	return true;
}

static bool do_read(struct actor *actor, const struct step *step)
{
	char path[PATH_SIZE];
	bool well;
	int fd;

	node_path(step->node, path);
	fd = openat(actor->root, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return failed(actor, "open", path);
	well = check_read(actor, step, fd, path);
	if (close(fd) && well)
		return failed(actor, "close", path);
	return well;
}

static bool (*const actions[STEP_KINDS])(struct actor *actor, const struct step *step) = {
	[STEP_CREATE] = do_create,   [STEP_WRITE] = do_change, [STEP_APPEND] = do_change,
	[STEP_TRUNCATE] = do_change, [STEP_READ] = do_read,    [STEP_MKDIR] = do_mkdir,
	[STEP_RMDIR] = do_remove,    [STEP_RENAME] = do_rename, [STEP_UNLINK] = do_remove,
};

bool act(struct actor *actor, const struct step *step)
{
	actor->step = step;
	return actions[step->kind](actor, step);
}
