// SPDX-License-Identifier: Apache-2.0
/*
 * steps run FOLDER SEED LOG [STEPS]: change an empty folder, step by step, for STEPS steps or until killed.
 * steps check FOLDER SEED LOG: compare the folder with a model that takes the steps in the log.
 *
 * The log has a line when a step is done: its number, then NODE:SECONDS.NANOSECONDS for each node whose
 * modification time it may have changed. At most one step more was taken than the log says.
 *
 * Exit status: 0 the tree is right, 1 it is not (or the kernel refused a step), 2 wrong use, 69 something is
 * lacking that is no fault of the file system.
 */
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "compare.h"
#include "step.h"

#define MAX_LINE 1024

/* The line of a step that is done. */
static void acknowledge(const struct model *model, const struct step *step, int log)
{
	char line[MAX_LINE], path[MAX_PATH];
	int length = snprintf(line, sizeof(line), "%lu", step->number);

	for (int n = 0; n < MAX_TOUCHED && step->touched[n] >= 0; n++) {
		struct stat status;

		if (model->nodes[step->touched[n]].type == NOTHING)
			continue;
		model_path_of(model, step->touched[n], path);
		if (lstat(path, &status))
			err(1, "step %lu: %s", step->number, path);
		length += snprintf(line + length, sizeof(line) - (size_t)length, " %d:%jd.%09ld", step->touched[n],
				   (intmax_t)status.st_mtim.tv_sec, status.st_mtim.tv_nsec);
	}
	line[length++] = '\n';
	if (write(log, line, (size_t)length) != length)
		err(LACKS, "log");
}

static int run(uint64_t seed, const char *log_path, unsigned long steps)
{
	struct model *model = model_new();
	/* In /dev a file made by mistake would swallow the log. */
	int create = strncmp(log_path, "/dev/", 5) ? O_CREAT : 0;
	int log = open(log_path, O_WRONLY | O_APPEND | O_CLOEXEC | create, 0644);

	if (log < 0)
		err(LACKS, "%s", log_path);
	umask(0);
	if (chmod(".", 0755) || chown(".", 0, 0))
		err(1, "folder");
	for (unsigned long number = 1; number <= steps; number++) {
		struct step step = step_draw(model, seed, number);

		step_act(model, &step);
		step_apply(model, &step);
		acknowledge(model, &step, log);
	}
	return 0;
}

/* Take over the times of a line; whether it is one, and whole. */
static bool take_line(struct model *model, const char *line, unsigned long number)
{
	char *at;

	if (strtoul(line, &at, 10) != number || line[strlen(line) - 1] != '\n')
		return false;
	while (*at == ' ') {
		long node = strtol(at + 1, &at, 10);
		int64_t seconds = *at == ':' ? strtoll(at + 1, &at, 10) : 0;
		long nanoseconds = *at == '.' ? strtol(at + 1, &at, 10) : 0;

		if (node < 0 || node >= MAX_NODES)
			return false;
		model->nodes[node].timed = true;
		model->nodes[node].seconds = seconds;
		model->nodes[node].nanoseconds = nanoseconds;
	}
	return *at == '\n';
}

/* The model after the last step in the log; returns its number. */
static unsigned long replay(struct model *model, uint64_t seed, const char *log_path)
{
	char line[MAX_LINE];
	unsigned long number = 0;
	FILE *log = fopen(log_path, "re");

	if (!log)
		err(LACKS, "%s", log_path);
	while (fgets(line, sizeof(line), log)) {
		struct step step;

		if (line[strlen(line) - 1] != '\n')
			break; /* the reset cut it short, so it is not told yet */
		step = step_draw(model, seed, number + 1);
		step_apply(model, &step);
		if (!take_line(model, line, ++number))
			errx(LACKS, "%s: line %lu is malformed", log_path, number);
	}
	fclose(log);
	return number;
}

static int judge(struct model *model, uint64_t seed, unsigned long done)
{
	struct step next = step_draw(model, seed, done + 1);
	bool mixes = step_mixes(&next);
	struct node old;
	char *before, *after;
	size_t before_size, after_size;
	FILE *before_text = open_memstream(&before, &before_size);
	FILE *after_text = open_memstream(&after, &after_size);

	/* Its times are not in the log. */
	for (int n = 0; n < MAX_TOUCHED && next.touched[n] >= 0; n++)
		model->nodes[next.touched[n]].timed = false;
	if (!compare(model, -1, NULL, before_text)) {
		printf("%lu steps, all is as after the last one\n", done);
		return 0;
	}
	if (mixes)
		old = data_copy(&model->nodes[next.node]);
	step_apply(model, &next);
	for (int n = 0; n < MAX_TOUCHED && next.touched[n] >= 0; n++)
		model->nodes[next.touched[n]].timed = false;
	if (!compare(model, mixes ? next.node : -1, mixes ? &old : NULL, after_text)) {
		printf("%lu steps, and one in flight (%s)\n", done, operation_names[next.operation]);
		return 0;
	}
	fclose(before_text);
	fclose(after_text);
	printf("neither as after step %lu:\n%snor as after the next one (%s):\n%s", done, before,
	       operation_names[next.operation], after);
	return 1;
}

static uint64_t number(const char *text)
{
	char *end;
	uint64_t value = strtoull(text, &end, 10);

	if (!*text || *end)
		errx(2, "%s is no number", text);
	return value;
}

int main(int argc, char **argv)
{
	if (argc < 5 || argc > 6)
		errx(2, "use: steps run FOLDER SEED LOG [STEPS], or steps check FOLDER SEED LOG");
	if (chdir(argv[2]))
		err(LACKS, "%s", argv[2]);
	if (!strcmp(argv[1], "run"))
		return run(number(argv[3]), argv[4], argc == 6 ? number(argv[5]) : ~0UL);
	if (!strcmp(argv[1], "check") && argc == 5) {
		struct model *model = model_new();
		unsigned long done = replay(model, number(argv[3]), argv[4]);

		return judge(model, number(argv[3]), done);
	}
	errx(2, "%s: no such command", argv[1]);
}
