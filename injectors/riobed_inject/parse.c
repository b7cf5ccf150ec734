// SPDX-License-Identifier: GPL-2.0-only
/*
 * Parser of the injector's commands:
 *
 *	text ID ADDR OLDHEX NEWHEX PROBE
 *	heap ID SEED [KIND]
 *	stack ID SEED
 *	allocation ID CALLS MS
 *	copy_overrun ID CALLS EXTRA
 *	synchronization ID CALLS
 *	go | go nmi | go after MS
 *
 * Words are separated by single spaces. ADDR is hexadecimal without a prefix,
 * the other numbers are decimal. CALLS may be a time in milliseconds, as 15000ms.
 */
#include "parse.h"

struct cursor {
	const char *at;
	const char *end;
};

/* The next word; empty when there is none or the separator is wrong. */
static struct cursor next_word(struct cursor *line)
{
	struct cursor word = { line->at, line->at };

	while (line->at < line->end && *line->at != ' ')
		line->at++;
	word.end = line->at;
	/* Step over one space, but never over the last: nothing follows it. */
	if (line->end - line->at > 1)
		line->at++;
	return word;
}

static int is_word(struct cursor word, const char *text)
{
	while (word.at < word.end && *text == *word.at) {
		word.at++;
		text++;
	}
	return word.at == word.end && !*text;
}

static int digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return 16;
}

/* A number in least..most; 0 on success. */
static int number(struct cursor word, unsigned int base, unsigned long least,
		  unsigned long most, unsigned long *value)
{
	unsigned long v = 0;

	if (word.at == word.end)
		return -1;
	for (; word.at < word.end; word.at++) {
		unsigned int d = digit(*word.at);

		if (d >= base || d > most || v > (most - d) / base)
			return -1;
		v = v * base + d;
	}
	*value = v;
	return v < least ? -1 : 0;
}

static int decimal(struct cursor *line, unsigned long least,
		   unsigned long most, unsigned int *value)
{
	unsigned long v;

	if (number(next_word(line), 10, least, most, &v))
		return -1;
	*value = v;
	return 0;
}

/* Bytes in hexadecimal: how many, or 0 if the word is not 1..15 bytes. */
static unsigned int bytes(struct cursor word, unsigned char *out)
{
	long length = word.end - word.at;
	long i;

	if (length < 2 || length > 2 * INJECT_INSN_MAX || length % 2)
		return 0;
	for (i = 0; i < length / 2; i++) {
		int high = digit(word.at[2 * i]);
		int low = digit(word.at[2 * i + 1]);

		if (high > 15 || low > 15)
			return 0;
		out[i] = high << 4 | low;
	}
	return length / 2;
}

static const char *parse_text(struct cursor *line, struct inject_command *cmd)
{
	if (number(next_word(line), 16, 1, ~0UL, &cmd->addr))
		return "ADDR is not a hexadecimal address";
	cmd->len = bytes(next_word(line), cmd->old);
	if (!cmd->len)
		return "OLD is not 1 to 15 bytes in hexadecimal";
	if (bytes(next_word(line), cmd->new) != cmd->len)
		return "NEW is not as many bytes as OLD";
	if (decimal(line, 0, 1, &cmd->probe))
		return "PROBE is neither 0 nor 1";
	return (void *)0;
}

const char *const inject_heap_kinds[HEAP_KINDS] = {
	[HEAP_ANY] = "",
	[HEAP_SLAB] = "slab",
	[HEAP_PAGE_TABLE] = "page_table",
	[HEAP_STRUCT_PAGE] = "struct_page",
	[HEAP_PERCPU] = "percpu",
	[HEAP_VMALLOC] = "vmalloc",
};

static const char *parse_flip(struct cursor *line, struct inject_command *cmd)
{
	return decimal(line, 0, ~0U, &cmd->seed) ? "SEED is out of range" : (void *)0;
}

static const char *parse_heap(struct cursor *line, struct inject_command *cmd)
{
	const char *wrong = parse_flip(line, cmd);
	struct cursor kind = next_word(line);

	for (cmd->heap = HEAP_ANY; !wrong && cmd->heap < HEAP_KINDS; cmd->heap++)
		if (is_word(kind, inject_heap_kinds[cmd->heap]))
			return (void *)0;
	return wrong ? wrong : "KIND is none of the heap's";
}

static const char *parse_calls(struct cursor *line, struct inject_command *cmd)
{
	struct cursor word = next_word(line);
	unsigned long v, most = INJECT_CALLS_MAX;
	int in_ms = word.end - word.at > 2 && word.end[-2] == 'm' && word.end[-1] == 's';

	if (in_ms) {
		word.end -= 2;
		most = INJECT_WAIT_MAX;
	}
	if (number(word, 10, 1, most, &v))
		return "CALLS is out of range";
	cmd->calls = in_ms ? 0 : v;
	cmd->wait = in_ms ? v : 0;
	return (void *)0;
}

static const char *parse_allocation(struct cursor *line, struct inject_command *cmd)
{
	const char *wrong = parse_calls(line, cmd);

	if (!wrong && decimal(line, 0, INJECT_MS_MAX, &cmd->ms))
		wrong = "MS is out of range";
	return wrong;
}

static const char *parse_copy_overrun(struct cursor *line,
				      struct inject_command *cmd)
{
	const char *wrong = parse_calls(line, cmd);

	if (!wrong && decimal(line, 1, INJECT_EXTRA_MAX, &cmd->extra))
		wrong = "EXTRA is out of range";
	return wrong;
}

static const struct {
	const char *name;
	enum inject_kind kind;
	const char *(*parse)(struct cursor *line, struct inject_command *cmd);
} commands[] = {
	{ "text", INJECT_TEXT, parse_text },
	{ "heap", INJECT_HEAP, parse_heap },
	{ "stack", INJECT_STACK, parse_flip },
	{ "allocation", INJECT_ALLOCATION, parse_allocation },
	{ "copy_overrun", INJECT_COPY_OVERRUN, parse_copy_overrun },
	{ "synchronization", INJECT_SYNCHRONIZATION, parse_calls },
};

static const char *parse_fault(struct cursor name, struct cursor *line,
			       struct inject_command *cmd)
{
	unsigned int i;

	for (i = 0; i < sizeof(commands) / sizeof(*commands); i++) {
		if (!is_word(name, commands[i].name))
			continue;
		cmd->kind = commands[i].kind;
		if (decimal(line, 0, INJECT_ID_MAX, &cmd->id))
			return "ID is out of range";
		return commands[i].parse(line, cmd);
	}
	return "unknown command";
}

static const char *parse_go(struct cursor *line, struct inject_command *cmd)
{
	struct cursor when = next_word(line);

	cmd->kind = INJECT_GO;
	if (is_word(when, "")) {
		cmd->when = INJECT_NOW;
	} else if (is_word(when, "nmi")) {
		cmd->when = INJECT_AT_NMI;
	} else if (is_word(when, "after")) {
		cmd->when = INJECT_AFTER;
		if (decimal(line, 1, INJECT_WAIT_MAX, &cmd->ms))
			return "MS is out of range";
	} else {
		return "go is followed by nothing, nmi, or after";
	}
	return (void *)0;
}

const char *inject_parse(const char *text, unsigned long len,
			 struct inject_command *cmd)
{
	struct cursor line = { text, text + len };
	struct cursor name = next_word(&line);
	const char *wrong;

	if (is_word(name, "go"))
		wrong = parse_go(&line, cmd);
	else
		wrong = parse_fault(name, &line, cmd);
	if (!wrong && line.at != line.end)
		wrong = "more words than the command takes";
	return wrong;
}
