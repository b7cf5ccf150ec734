// SPDX-License-Identifier: GPL-2.0-only
/*
 * The injector's parser outside the kernel:
 *
 *	parse_test		reads lines, writes what each means or why not
 *	parse_test fuzz N	N damaged commands, each in memory of its exact size
 *
 * The second is meant for a build with sanitizers; it fails if an accepted
 * command breaks its limits or does not survive being written and read again.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../parse.h"

static void print_hex(FILE *out, const unsigned char *bytes, unsigned int len)
{
	while (len--)
		fprintf(out, "%02x", *bytes++);
}

static void print_when(FILE *out, const struct inject_command *cmd)
{
	if (cmd->wait)
		fprintf(out, "%ums", cmd->wait);
	else
		fprintf(out, "%u", cmd->calls);
}

static void print_command(FILE *out, const struct inject_command *cmd)
{
	switch (cmd->kind) {
	case INJECT_GO:
		fputs(cmd->when == INJECT_AT_NMI ? "go nmi" : "go", out);
		if (cmd->when == INJECT_AFTER)
			fprintf(out, " after %u", cmd->ms);
		break;
	case INJECT_HEAP:
		fprintf(out, "heap %u %u%s%s", cmd->id, cmd->seed, cmd->heap ? " " : "",
			inject_heap_kinds[cmd->heap]);
		break;
	case INJECT_STACK:
		fprintf(out, "stack %u %u", cmd->id, cmd->seed);
		break;
	case INJECT_ALLOCATION:
		fprintf(out, "allocation %u ", cmd->id);
		print_when(out, cmd);
		fprintf(out, " %u", cmd->ms);
		break;
	case INJECT_COPY_OVERRUN:
		fprintf(out, "copy_overrun %u ", cmd->id);
		print_when(out, cmd);
		fprintf(out, " %u", cmd->extra);
		break;
	case INJECT_SYNCHRONIZATION:
		fprintf(out, "synchronization %u ", cmd->id);
		print_when(out, cmd);
		break;
	case INJECT_TEXT:
		fprintf(out, "text %u %lx ", cmd->id, cmd->addr);
		print_hex(out, cmd->old, cmd->len);
		fputc(' ', out);
		print_hex(out, cmd->new, cmd->len);
		fprintf(out, " %u", cmd->probe);
		break;
	}
}

static int translate(void)
{
	struct inject_command cmd;
	char line[4096];

	while (fgets(line, sizeof(line), stdin)) {
		const char *wrong = inject_parse(line, strcspn(line, "\n"), &cmd);

		if (wrong)
			printf("refused: %s", wrong);
		else
			print_command(stdout, &cmd);
		putchar('\n');
	}
	return 0;
}

static unsigned int next_random(unsigned long *state)
{
	*state = *state * 6364136223846793005UL + 1442695040888963407UL;
	return *state >> 33;
}

/* Parse a copy of exactly len bytes, so that a sanitizer sees any read behind it. */
static const char *parse_exact(const char *line, size_t len, struct inject_command *cmd)
{
	char *exact = malloc(len ? len : 1);
	const char *wrong;

	if (!exact)
		abort();
	memcpy(exact, line, len);
	wrong = inject_parse(exact, len, cmd);
	free(exact);
	return wrong;
}

static size_t damage(char *line, size_t len, size_t room, unsigned long *state)
{
	static const char bytes[] = "0123456789abcdefxgoms _-\n\t\377";
	unsigned int times = next_random(state) % 4;

	while (times--) {
		size_t at = next_random(state) % (len + 1);

		switch (next_random(state) % 3) {
		case 0:
			if (at < len)
				line[at] = bytes[next_random(state) % (sizeof(bytes) - 1)];
			break;
		case 1:
			if (at < len) {
				memmove(line + at, line + at + 1, len - at - 1);
				len--;
			}
			break;
		default:
			if (len < room) {
				memmove(line + at + 1, line + at, len - at);
				line[at] = bytes[next_random(state) % (sizeof(bytes) - 1)];
				len++;
			}
		}
	}
	return len;
}

static int calls_within_limits(const struct inject_command *cmd)
{
	return cmd->wait ? !cmd->calls && cmd->wait <= INJECT_WAIT_MAX :
			   cmd->calls >= 1 && cmd->calls <= INJECT_CALLS_MAX;
}

static int within_limits(const struct inject_command *cmd)
{
	if (cmd->kind != INJECT_GO && cmd->id > INJECT_ID_MAX)
		return 0;
	switch (cmd->kind) {
	case INJECT_GO:
		return cmd->when != INJECT_AFTER || (cmd->ms >= 1 && cmd->ms <= INJECT_WAIT_MAX);
	case INJECT_HEAP:
	case INJECT_STACK:
		return 1;
	case INJECT_TEXT:
		return cmd->addr && cmd->len >= 1 && cmd->len <= INJECT_INSN_MAX &&
		       cmd->probe <= 1;
	case INJECT_ALLOCATION:
		return calls_within_limits(cmd) && cmd->ms <= INJECT_MS_MAX;
	case INJECT_COPY_OVERRUN:
		return calls_within_limits(cmd) && cmd->extra >= 1 &&
		       cmd->extra <= INJECT_EXTRA_MAX;
	case INJECT_SYNCHRONIZATION:
		return calls_within_limits(cmd);
	}
	return 0;
}

static int same(const struct inject_command *cmd)
{
	struct inject_command again;
	char *text, *text_again;
	size_t len, len_again;
	FILE *out = open_memstream(&text, &len);
	int equal;

	print_command(out, cmd);
	fclose(out);
	equal = !parse_exact(text, len, &again);
	if (equal) {
		out = open_memstream(&text_again, &len_again);
		print_command(out, &again);
		fclose(out);
		equal = !strcmp(text, text_again);
		free(text_again);
	}
	free(text);
	return equal;
}

static int fuzz(unsigned long count)
{
	static const char *const good[] = {
		"text 0 ffffffff81000003 7403 6690 1",
		"text 65535 ffffffff81ffffff 00112233445566778899aabbccddee 00112233445566778899aabbccddef 0",
		"heap 3 4294967295",
		"stack 4 0",
		"allocation 5 1000 256",
		"copy_overrun 7 4000 4096",
		"synchronization 8 2500",
		"allocation 9 15000ms 256",
		"go",
		"go nmi",
		"go after 1500",
	};
	unsigned long state = 1, accepted = 0, i;

	for (i = 0; i < count; i++) {
		struct inject_command cmd;
		char line[INJECT_LINE_MAX];
		const char *seed = good[i % (sizeof(good) / sizeof(*good))];
		size_t len = strlen(seed);

		memcpy(line, seed, len);
		len = damage(line, len, sizeof(line), &state);
		if (parse_exact(line, len, &cmd))
			continue;
		accepted++;
		if (!within_limits(&cmd) || !same(&cmd)) {
			printf("wrongly accepted: %.*s\n", (int)len, line);
			return 1;
		}
	}
	printf("%lu of %lu accepted\n", accepted, count);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc == 3 && !strcmp(argv[1], "fuzz"))
		return fuzz(strtoul(argv[2], NULL, 10));
	return translate();
}
