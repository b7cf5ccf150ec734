/* SPDX-License-Identifier: GPL-2.0-only */
#include <linux/linkage.h>

/* A procedure that does nothing; 0 is success for those that can fail. */
SYM_FUNC_START(lock_skipped)
	xorl	%eax, %eax
	RET
SYM_FUNC_END(lock_skipped)

/* Replaces _raw_spin_lock_irqsave(): returns the flags and leaves interrupts as they are. */
SYM_FUNC_START(lock_skipped_flags)
	pushfq
	popq	%rax
	RET
SYM_FUNC_END(lock_skipped_flags)
