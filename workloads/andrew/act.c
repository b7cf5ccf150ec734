// SPDX-License-Identifier: Apache-2.0
#include "act.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "compile.h"
#include "io.h"
#include "util.h"

static bool failed(struct actor *actor, const char *how, const char *detail)
{
	snprintf(actor->how, sizeof(actor->how), "%s", how);
	snprintf(actor->detail, sizeof(actor->detail), "%s", detail);
	return false;
}

static bool call_failed(struct actor *actor, const char *call)
{
	const char *name = strerrorname_np(errno);

	return failed(actor, name ? name : "EUNKNOWN", call);
}

static const struct thing *thing_of(const struct actor *actor, const struct step *step)
{
	return &actor->shape->thing[step->thing];
}

/* Makes the new or lost name of a thing durable. The directory of the round itself is in the process's. */
static bool sync_parent(struct actor *actor, const struct thing *thing)
{
	char path[PATH_SIZE];

	if (!actor->fsync)
		return true;
	if (thing == actor->shape->thing)
		strcpy(path, ".");
	else
		thing_path(&actor->shape->thing[thing->parent], actor->origin.round, path);
	return sync_dir(actor->root, path) || call_failed(actor, "fsync of directory");
}

static bool do_mkdir(struct actor *actor, const struct thing *thing)
{
	char path[PATH_SIZE];

	thing_path(thing, actor->origin.round, path);
	if (mkdirat(actor->root, path, 0755))
		return call_failed(actor, "mkdir");
	if (actor->fsync && !sync_dir(actor->root, path))
		return call_failed(actor, "fsync");
	return sync_parent(actor, thing);
}

/* Compares a source file with its text, which the caller frees. */
static bool compare(struct actor *actor, const struct thing *thing, const char *text, size_t length)
{
	char path[PATH_SIZE], detail[64];
	size_t found = 0, at = 0;
	uint8_t *data = NULL;
	int fd;

	thing_path(thing, actor->origin.round, path);
	fd = openat(actor->root, path, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return call_failed(actor, "open");
	data = read_whole(fd, &found);
	close(fd);
	if (!data)
		return call_failed(actor, "read");
	while (at < found && at < length && data[at] == (uint8_t)text[at])
		at++;
	free(data);
	if (at == found && at == length)
		return true;
	snprintf(detail, sizeof(detail), "size %zu, should be %zu; the same up to %zu", found, length, at);
	return failed(actor, "mismatch", detail);
}

static char *text_of(const struct actor *actor, const struct thing *thing, size_t *length)
{
	return source_text(&actor->origin, thing->file, actor->shape->files, length);
}

static bool do_source(struct actor *actor, const struct thing *thing)
{
	char path[PATH_SIZE];
	size_t length;
	char *text = text_of(actor, thing, &length);
	bool well;

	thing_path(thing, actor->origin.round, path);
	well = !thing->from || compare(actor, &actor->shape->thing[thing->from], text, length);
	if (well && !write_new(actor->root, path, text, length, actor->fsync))
		well = call_failed(actor, "write");
	free(text);
	return well && sync_parent(actor, thing);
}

static bool do_make(struct actor *actor, const struct step *step)
{
	const struct thing *thing = thing_of(actor, step);

	return thing->type == THING_DIR ? do_mkdir(actor, thing) : do_source(actor, thing);
}

static bool do_scan(struct actor *actor, const struct step *step)
{
	const struct thing *thing = thing_of(actor, step);
	char path[PATH_SIZE];
	struct stat stat;
	size_t length;

	thing_path(thing, actor->origin.round, path);
	if (fstatat(actor->root, path, &stat, AT_SYMLINK_NOFOLLOW))
		return call_failed(actor, "stat");
	if (thing->type == THING_DIR)
		return S_ISDIR(stat.st_mode) || failed(actor, "mismatch", "not a directory");
	free(text_of(actor, thing, &length));
	return (S_ISREG(stat.st_mode) && (size_t)stat.st_size == length) || failed(actor, "mismatch", "not that file");
}

static bool do_read(struct actor *actor, const struct step *step)
{
	const struct thing *thing = thing_of(actor, step);
	size_t length;
	char *text = text_of(actor, thing, &length);
	bool well = compare(actor, thing, text, length);

	free(text);
	return well;
}

/* In the child: becomes `andrew cc`, in dst/. */
static _Noreturn void exec_compiler(const struct actor *actor, const struct thing *thing)
{
	const struct shape *shape = actor->shape;
	const char *words[shape->files + 5];
	char dst[PATH_SIZE];
	size_t count = 0;

	/* A compilation that has begun ends, also when the run is told to stop. */
	signal(SIGTERM, SIG_IGN);
	snprintf(dst, sizeof(dst), "r%llu/dst", (unsigned long long)actor->origin.round);
	if (fchdir(actor->root) || chdir(dst))
		_exit(errno);
	words[count++] = "andrew";
	words[count++] = "cc";
	if (actor->fsync)
		words[count++] = "--fsync";
	words[count++] = thing->path + strlen("dst/");
	if (thing->type == THING_OBJECT)
		words[count++] = shape->thing[thing->from].path + strlen("dst/");
	for (unsigned int i = 0; thing->type == THING_PROGRAM && i < shape->things; i++)
		if (shape->thing[i].type == THING_OBJECT)
			words[count++] = shape->thing[i].path + strlen("dst/");
	words[count] = NULL;
	execv("/proc/self/exe", (char *const *)words);
	_exit(errno);
}

static bool do_compile(struct actor *actor, const struct step *step)
{
	const struct thing *thing = thing_of(actor, step);
	pid_t child = fork(), ended;
	int status;

	if (child < 0)
		return call_failed(actor, "fork");
	if (!child)
		exec_compiler(actor, thing);
	do
		ended = waitpid(child, &status, 0);
	while (ended < 0 && errno == EINTR);
	if (ended != child)
		return call_failed(actor, "wait");
	if (!WIFEXITED(status))
		return failed(actor, "killed", "the compiler");
	if (WEXITSTATUS(status) == STATUS_COMPILER)
		return failed(actor, "compiler", "does not accept it");
	errno = WEXITSTATUS(status);
	return errno ? call_failed(actor, "of the compiler") : sync_parent(actor, thing);
}

static bool do_remove(struct actor *actor, const struct step *step)
{
	const struct thing *thing = thing_of(actor, step);
	bool dir = thing->type == THING_DIR;
	char path[PATH_SIZE];

	thing_path(thing, actor->origin.round, path);
	if (unlinkat(actor->root, path, dir ? AT_REMOVEDIR : 0))
		return call_failed(actor, dir ? "rmdir" : "unlink");
	return sync_parent(actor, thing);
}

static bool (*const actions[])(struct actor *actor, const struct step *step) = {
	[STEP_CREATE] = do_make, [STEP_MKDIR] = do_make,      [STEP_COPY] = do_make,     [STEP_SCAN] = do_scan,
	[STEP_READ] = do_read,   [STEP_COMPILE] = do_compile, [STEP_REMOVE] = do_remove,
};

bool act(struct actor *actor, const struct step *step)
{
	return actions[step->kind](actor, step);
}
