/* SPDX-License-Identifier: GPL-2.0-only */
#include <linux/linkage.h>

/*
 * Replaces one call of rep_movs_alternative(): the copy runs past its end by
 * %rax bytes, but its result refers to the requested count. Otherwise a page
 * fault in the extra bytes would report more bytes "not copied" than the caller
 * wanted to copy, which is an error of another kind.
 *
 * rdi destination, rsi source, rcx count, rax extra bytes
 * Returns rcx: how many of count were not copied. Clobbers what the routine does.
 */
SYM_FUNC_START(copy_user_overrun)
	pushq	%rax
	addq	%rax, %rcx
	call	rep_movs_alternative
	popq	%rax
	subq	%rax, %rcx
	jae	1f
	xorl	%ecx, %ecx
1:	RET
SYM_FUNC_END(copy_user_overrun)
