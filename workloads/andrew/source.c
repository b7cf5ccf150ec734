// SPDX-License-Identifier: Apache-2.0
#include "source.h"

#include <stdio.h>

#include "util.h"

/* splitmix64 (G. Steele, D. Lea, C. Flood: Fast splittable pseudorandom number generators, OOPSLA 2014). */
#define GAMMA 0x9e3779b97f4a7c15u

static uint64_t mix64(uint64_t z)
{
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
	return z ^ (z >> 31);
}

static uint64_t draw(uint64_t *state)
{
	*state += GAMMA;
	return mix64(*state);
}

static uint64_t start(const struct origin *origin, unsigned int file)
{
	uint64_t key = mix64(origin->seed + GAMMA);

	key = mix64(key ^ origin->process);
	key = mix64(key ^ origin->round);
	return mix64(key ^ file);
}

static void put_header(FILE *out, uint64_t *state)
{
	unsigned int names = 8 + draw(state) % 24;

	for (unsigned int i = 0; i < names; i++)
		fprintf(out, "#define NUMBER_%u 0x%016llxUL\n", i, (unsigned long long)draw(state));
	fprintf(out, "#define NUMBERS %u\n\n", names);
	fputs("struct pair {\n\tunsigned long first;\n\tunsigned long second;\n};\n", out);
}

static void put_table(FILE *out, uint64_t *state, unsigned int length)
{
	fprintf(out, "static const unsigned long table[%u] = {\n", length);
	for (unsigned int i = 0; i < length; i++)
		fprintf(out, "\t0x%016llxUL,\n", (unsigned long long)draw(state));
	fputs("};\n", out);
}

static void put_function(FILE *out, uint64_t *state, unsigned int number, unsigned int table)
{
	fprintf(out, "\nstatic unsigned long f%u(unsigned long x)\n{\n", number);
	fprintf(out, "\tstruct pair pair = { x ^ 0x%016llxUL, NUMBER_%u };\n\n", (unsigned long long)draw(state),
		(unsigned int)(draw(state) % 8));
	fprintf(out, "\tfor (unsigned long i = 0; i < %u; i++) {\n", 1 + (unsigned int)(draw(state) % 64));
	fprintf(out, "\t\tpair.first += table[(pair.second + i) %% %u] >> %u;\n", table, (unsigned int)(draw(state) % 32));
	fprintf(out, "\t\tif (pair.first & 0x%llxUL)\n", (unsigned long long)(draw(state) & 0xffff));
	fprintf(out, "\t\t\tpair.second = pair.second * 0x%016llxUL + i;\n\t}\n", (unsigned long long)draw(state) | 1);
	if (number)
		fprintf(out, "\treturn f%u(pair.first) ^ pair.second;\n}\n", (unsigned int)(draw(state) % number));
	else
		fputs("\treturn pair.first ^ pair.second;\n}\n", out);
}

static void put_entry(FILE *out, unsigned int files)
{
	fputs("\n", out);
	for (unsigned int file = DIRS; file < files; file++)
		fprintf(out, "unsigned long m%03u(unsigned long x);\n", file);
	fputs("\nunsigned long result;\n\nvoid _start(void)\n{\n", out);
	for (unsigned int file = DIRS; file < files; file++)
		fprintf(out, "\tresult = m%03u(result);\n", file);
	fputs("\tfor (;;)\n\t\t;\n}\n", out);
}

static void put_module(FILE *out, uint64_t *state, unsigned int file, unsigned int files)
{
	unsigned int table = 16 + (unsigned int)(draw(state) % 240), functions = 2 + (unsigned int)(draw(state) % 14);

	fputs("#include \"common.h\"\n\n", out);
	put_table(out, state, table);
	for (unsigned int i = 0; i < functions; i++)
		put_function(out, state, i, table);
	fprintf(out, "\nunsigned long m%03u(unsigned long x)\n{\n\treturn f%u(x + NUMBERS);\n}\n", file, functions - 1);
	if (file == DIRS)
		put_entry(out, files);
}

char *source_text(const struct origin *origin, unsigned int file, unsigned int files, size_t *length)
{
	uint64_t state = start(origin, file);
	char *text = NULL;
	FILE *out = open_memstream(&text, length);

	if (!out)
		die(EXIT_ENVIRONMENT, "out of memory");
	fprintf(out, "/* %016llx */\n", (unsigned long long)draw(&state));
	if (is_header(file))
		put_header(out, &state);
	else
		put_module(out, &state, file, files);
	if (fclose(out))
		die(EXIT_ENVIRONMENT, "out of memory");
	return text;
}
