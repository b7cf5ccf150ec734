/* SPDX-License-Identifier: GPL-2.0-only */
#include <linux/linkage.h>

/* In assembly, because a test changes one known instruction of each. */

SYM_FUNC_START(victim_kernel_text)
	movl	$5, %eax
	incl	%eax
	RET
SYM_FUNC_END(victim_kernel_text)

SYM_FUNC_START(victim_destination_reg)
	movl	$1, %ecx
	movl	$2, %edx
	movl	$7, %ecx
	leal	(%rcx, %rdx, 8), %eax
	RET
SYM_FUNC_END(victim_destination_reg)

SYM_FUNC_START(victim_source_reg)
	movl	$3, %ecx
	movl	$4, %edx
	movl	%ecx, %eax
	RET
SYM_FUNC_END(victim_source_reg)

/* edi 0 */
SYM_FUNC_START(victim_delete_branch)
	movl	$1, %eax
	testl	%edi, %edi
	je	1f
	movl	$2, %eax
1:	RET
SYM_FUNC_END(victim_delete_branch)

SYM_FUNC_START(victim_delete_random_inst)
	movl	$40, %eax
	addl	$2, %eax
	RET
SYM_FUNC_END(victim_delete_random_inst)

/* Leaves a value where the local of the next function will be. */
SYM_FUNC_START(victim_leave_on_stack)
	subq	$16, %rsp
	movl	$0x5eed, 8(%rsp)
	addq	$16, %rsp
	RET
SYM_FUNC_END(victim_leave_on_stack)

SYM_FUNC_START(victim_initialization)
	subq	$16, %rsp
	movl	$0, 8(%rsp)
	movl	8(%rsp), %eax
	addq	$16, %rsp
	RET
SYM_FUNC_END(victim_initialization)

/* rdi, rsi pointers to int: the second one's value */
SYM_FUNC_START(victim_pointer)
	movq	%rdi, %rax
	movl	(%rax), %ecx
	movq	%rsi, %rax
	movl	(%rax), %eax
	RET
SYM_FUNC_END(victim_pointer)

/* How often its loop runs. */
SYM_FUNC_START(victim_off_by_one)
	xorl	%eax, %eax
1:	incl	%eax
	cmpl	$5, %eax
	jl	1b
	RET
SYM_FUNC_END(victim_off_by_one)
