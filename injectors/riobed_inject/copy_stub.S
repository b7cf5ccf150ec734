/* SPDX-License-Identifier: GPL-2.0-only */
#include <linux/linkage.h>

/*
 * Each replaces one call of a routine: the copy runs past its end by %rax bytes,
 * but its result refers to the requested count. Otherwise a page fault in the
 * extra bytes would report more bytes "not copied" than the caller wanted to copy,
 * which is an error of another kind.
 *
 * rdi destination, rsi source, rax extra bytes. Clobbers what the routine does.
 */

/* rep_movs_alternative(): rcx count; returns in rcx how many of these were not copied */
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

/* copy_to_nontemporal(): edx count; returns in rax how many of these were not copied */
SYM_FUNC_START(copy_nontemporal_overrun)
	pushq	%rax
	addl	%eax, %edx
	call	copy_to_nontemporal
	popq	%rdx
	subq	%rdx, %rax
	jae	1f
	xorl	%eax, %eax
1:	RET
SYM_FUNC_END(copy_nontemporal_overrun)
