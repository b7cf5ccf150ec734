/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which x86-64 instructions write cache lines back, and which order that. Codes: Intel SDM, volume 2, CLFLUSH,
 * CLFLUSHOPT, CLWB, SFENCE, MFENCE, WBINVD, MOVNTI, MOVNTDQ, MOVNTPS; chapter 2 for prefixes and operands. WBNOINVD,
 * MOVDIRI, MOVDIR64B and MASKMOVDQU are not known, so what they write counts as not written back.
 */
#ifndef FLUSH_H
#define FLUSH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum effect {
	NO_EFFECT,
	FLUSH,		/* CLWB, CLFLUSHOPT: in effect after the next fence */
	FLUSH_NOW,	/* CLFLUSH: in effect at once, for its line alone */
	FENCE,		/* SFENCE, MFENCE, locked instructions, XCHG with memory */
	FLUSH_ALL,	/* WBINVD */
	NON_TEMPORAL,	/* a store past the caches: in effect after the next fence */
};

/* The address of a memory operand; a register that is not used is -1. */
struct operand {
	int base, index;
	unsigned int shift;
	bool relative;	/* to the next instruction */
	bool segment;	/* relative to FS or GS, whose base is not known here */
	int32_t displacement;
};

struct code {
	const uint8_t *at, *end;
	bool operand_size, repeat, repeat_not, lock, segment;
	uint8_t rex;
};

static inline void skip_prefixes(struct code *code)
{
	for (; code->at < code->end; code->at++) {
		switch (*code->at) {
		case 0x66:
			code->operand_size = true;
			break;
		case 0xf3:
			code->repeat = true;
			break;
		case 0xf2:
			code->repeat_not = true;
			break;
		case 0xf0:
			code->lock = true;
			break;
		case 0x64:
		case 0x65:
			code->segment = true;
			break;
		case 0x26:
		case 0x2e:
		case 0x36:
		case 0x3e:
		case 0x67:
			break;
		default:
			if ((*code->at & 0xf0) == 0x40)
				code->rex = *code->at++;
			return;
		}
	}
}

/* The operand after an operation code that has a ModRM byte; false if the code ends before it does. */
static inline bool read_operand(const struct code *code, const uint8_t *modrm, struct operand *found)
{
	const uint8_t *at = modrm + 1;
	unsigned int mod = *modrm >> 6, rm = *modrm & 7;
	size_t displaced = mod == 1 ? 1 : mod == 2 ? 4 : 0;
	int8_t near;

	*found = (struct operand){.base = rm | (code->rex & 1) << 3, .index = -1, .segment = code->segment};
	if (rm == 4) {
		if (at >= code->end)
			return false;
		rm = *at & 7;
		found->base = rm | (code->rex & 1) << 3;
		found->index = (*at >> 3 & 7) | (code->rex & 2) << 2;
		found->index = found->index == 4 ? -1 : found->index;
		found->shift = *at++ >> 6;
	} else if (rm == 5 && !mod) {
		found->relative = true;
	}
	if (rm == 5 && !mod) {
		found->base = -1;
		displaced = 4;
	}
	if ((size_t)(code->end - at) < displaced)
		return false;
	if (displaced == 4)
		memcpy(&found->displacement, at, 4);
	if (displaced == 1) {
		memcpy(&near, at, 1);
		found->displacement = near;
	}
	return true;
}

/* 0F AE: the group of the flushes and the fences. */
static inline enum effect effect_of_group15(const struct code *code, const uint8_t *modrm, struct operand *found)
{
	unsigned int number = *modrm >> 3 & 7;

	if (*modrm >> 6 == 3)
		return !code->operand_size && !code->repeat && !code->repeat_not && number >= 6 ? FENCE : NO_EFFECT;
	if (code->repeat || code->repeat_not || !(number == 7 || (number == 6 && code->operand_size)))
		return NO_EFFECT;
	if (!read_operand(code, modrm, found))
		return NO_EFFECT;
	return number == 7 && !code->operand_size ? FLUSH_NOW : FLUSH;
}

/* MOVNTPS and MOVNTDQ with a VEX or EVEX prefix, which `codes` bytes precede. */
static inline enum effect effect_of_vector(const struct code *code, size_t bytes)
{
	if ((size_t)(code->end - code->at) <= bytes)
		return NO_EFFECT;
	return code->at[bytes] == 0xe7 || code->at[bytes] == 0x2b ? NON_TEMPORAL : NO_EFFECT;
}

/* What an instruction of `size` bytes does; of a FLUSH and FLUSH_NOW also the operand. */
static inline enum effect effect_of(const uint8_t *bytes, size_t size, struct operand *found)
{
	struct code code = {.at = bytes, .end = bytes + size};

	skip_prefixes(&code);
	if (code.lock)
		return FENCE;
	if (code.end - code.at < 2)
		return NO_EFFECT;
	switch (code.at[0]) {
	case 0x86:
	case 0x87:
		return code.at[1] >> 6 != 3 ? FENCE : NO_EFFECT;
	case 0xc5:
		return effect_of_vector(&code, 2);
	case 0xc4:
		return effect_of_vector(&code, 3);
	case 0x62:
		return effect_of_vector(&code, 4);
	case 0x0f:
		break;
	default:
		return NO_EFFECT;
	}
	switch (code.at[1]) {
	case 0x09:
		return code.repeat ? NO_EFFECT : FLUSH_ALL;
	case 0x2b:
	case 0xc3:
	case 0xe7:
		/* MOVNTPS, MOVNTI, MOVNTDQ; no other stores have these codes. */
		return NON_TEMPORAL;
	case 0xae:
		return code.end - code.at < 3 ? NO_EFFECT : effect_of_group15(&code, code.at + 2, found);
	}
	return NO_EFFECT;
}

#endif
