/* SPDX-License-Identifier: GPL-2.0-only */
#include <linux/linkage.h>

/*
 * Replaces one call of an allocator, to learn which block it returns.
 *
 * rax: the fault, which begins with the address at which the allocator continues.
 * All other registers are the caller's. Returns what the allocator returns.
 */
SYM_FUNC_START(allocation_caught)
	pushq	%rax
	call	*(%rax)
	popq	%rdi
	pushq	%rax
	movq	%rax, %rsi
	call	allocation_made
	popq	%rax
	RET
SYM_FUNC_END(allocation_caught)
