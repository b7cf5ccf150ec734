// SPDX-License-Identifier: Apache-2.0
/* What flush.h makes of instructions as the assembler writes them; harness/tests/test_lines.py runs it. */
#include <stdio.h>

#include "../flush.h"

enum { RAX, RCX, RDX, RBX, RSP, RBP, RSI, RDI, R8, R9, R10, R11, R12, R13, R14, R15, NONE = -1 };

static int wrong;

static bool same(const struct operand *one, const struct operand *other)
{
	return one->base == other->base && one->index == other->index && one->shift == other->shift &&
	       one->relative == other->relative && one->segment == other->segment &&
	       one->displacement == other->displacement;
}

static void check(const uint8_t *from, const uint8_t *to, const char *text, enum effect wanted,
		  struct operand operand)
{
	struct operand found = {0};
	enum effect effect = effect_of(from, to - from, &found);
	bool flush = wanted == FLUSH || wanted == FLUSH_NOW;

	if (effect != wanted || (flush && !same(&found, &operand))) {
		printf("%s: effect %d, base %d, index %d, shift %u, displacement %d\n", text, effect, found.base,
		       found.index, found.shift, found.displacement);
		wrong++;
	}
	/* A code that is cut short is not read beyond its end. */
	for (const uint8_t *end = from; end < to; end++) {
		uint8_t cut[16];

		memcpy(cut, from, end - from);
		effect_of(cut, end - from, &found);
	}
}

#define CASE(text, wanted, ...)                                                                                  \
	do {                                                                                                     \
		const uint8_t *from, *to;                                                                        \
		asm(".pushsection .rodata\n1: " text "\n2: .popsection\nlea 1b(%%rip), %0\nlea 2b(%%rip), %1"     \
		    : "=r"(from), "=r"(to));                                                                     \
		check(from, to, text, wanted, (struct operand){__VA_ARGS__});                                    \
	} while (0)

static void flushes(void)
{
	CASE("clwb (%%rax)", FLUSH, .base = RAX, .index = NONE);
	CASE("clwb (%%rdi)", FLUSH, .base = RDI, .index = NONE);
	CASE("clwb (%%r15)", FLUSH, .base = R15, .index = NONE);
	CASE("clwb (%%rsp)", FLUSH, .base = RSP, .index = NONE);
	CASE("clwb (%%r12)", FLUSH, .base = R12, .index = NONE);
	CASE("clwb (%%rbp)", FLUSH, .base = RBP, .index = NONE);
	CASE("clwb (%%r13)", FLUSH, .base = R13, .index = NONE);
	CASE("clwb -64(%%rdx)", FLUSH, .base = RDX, .index = NONE, .displacement = -64);
	CASE("clwb 4096(%%r9)", FLUSH, .base = R9, .index = NONE, .displacement = 4096);
	CASE("clwb (%%rax, %%rcx, 8)", FLUSH, .base = RAX, .index = RCX, .shift = 3);
	CASE("clwb 64(%%r8, %%r12, 2)", FLUSH, .base = R8, .index = R12, .shift = 1, .displacement = 64);
	CASE("clwb 64(, %%rbx, 4)", FLUSH, .base = NONE, .index = RBX, .shift = 2, .displacement = 64);
	CASE("clwb 4096(%%rip)", FLUSH, .base = NONE, .index = NONE, .relative = true, .displacement = 4096);
	CASE("clwb %%gs:8(%%rax)", FLUSH, .base = RAX, .index = NONE, .segment = true, .displacement = 8);
	CASE("clwb (%%eax)", FLUSH, .base = RAX, .index = NONE);
	CASE("clflushopt (%%rsi)", FLUSH, .base = RSI, .index = NONE);
	CASE("clflush 8(%%r14)", FLUSH_NOW, .base = R14, .index = NONE, .displacement = 8);
}

static void others(void)
{
	CASE("sfence", FENCE);
	CASE("mfence", FENCE);
	CASE("lock orl $0, (%%rsp)", FENCE);
	CASE("lock cmpxchg %%rcx, (%%rdi)", FENCE);
	CASE("xchg %%rax, (%%rdi)", FENCE);
	CASE("xchg %%r9b, 8(%%r10)", FENCE);
	CASE("wbinvd", FLUSH_ALL);
	CASE("movnti %%rax, (%%rdi)", NON_TEMPORAL);
	CASE("movntdq %%xmm9, 16(%%r8)", NON_TEMPORAL);
	CASE("movntps %%xmm1, (%%rdi)", NON_TEMPORAL);
	CASE("vmovntdq %%ymm2, (%%rdi)", NON_TEMPORAL);
	CASE("vmovntdq %%ymm12, (%%r9)", NON_TEMPORAL);
	CASE("vmovntpd %%zmm3, (%%rdi)", NON_TEMPORAL);
}

static void nothing(void)
{
	CASE("xchg %%rax, %%rbx", NO_EFFECT);
	CASE("lfence", NO_EFFECT);
	CASE("mov %%rax, (%%rdi)", NO_EFFECT);
	CASE("rep movsb", NO_EFFECT);
	CASE("fxsave (%%rdi)", NO_EFFECT);
	CASE("xsaveopt (%%rdi)", NO_EFFECT);
	CASE("ldmxcsr (%%rdi)", NO_EFFECT);
	CASE("rdfsbase %%rax", NO_EFFECT);
	CASE("nop", NO_EFFECT);
	CASE("ret", NO_EFFECT);
}

int main(void)
{
	flushes();
	others();
	nothing();
	return wrong != 0;
}
