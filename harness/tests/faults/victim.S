/* SPDX-License-Identifier: Apache-2.0 */
/* A text with one of everything the fault-site catalogue must know of; linked as a "vmlinux" by conftest.py. */

	.text
	.globl _stext
_stext:

.macro function name
	.p2align 4, 0xcc
	.globl \name
	.type \name, @function
\name:
.endm
.macro end name
	.size \name, . - \name
.endm

/* the symbols around a table, as the kernel's linker script makes them */
.macro table_start section symbol
	.pushsection \section, "a"
	.globl \symbol
\symbol:
	.popsection
.endm
	table_start .t_mcount __start_mcount_loc
	table_start .t_jump __start___jump_table
	table_start .t_static __start_static_call_sites
	table_start .t_locks __smp_locks
	table_start .t_alt __alt_instructions
	table_start .t_return __return_sites
	table_start .t_blacklist __start_kprobe_blacklist

/* an entry that begins with a self-relative place, and is padded to its size */
.macro relative section place pad=0
	.pushsection \section, "a"
	.long \place - .
	.if \pad
	.zero \pad
	.endif
	.popsection
.endm
.macro absolute section place
	.pushsection \section, "a"
	.quad \place
	.popsection
.endm

function short_branch
	test %rdi, %rdi
	je 1f
	mov %rdi, %rax
1:	ret
end short_branch

function long_branch
	cmp $7, %esi
	jg far_away
	xor %eax, %eax
	ret
	.rept 200
	mov %rax, 0x1234(%rbx)
	.endr
far_away:
	ret
end long_branch

function ftraced
1:	call short_branch
	absolute .t_mcount 1b
	mov %rsi, %rax
	ret
end ftraced

function locked
1:	lock incl (%rdi)
	relative .t_locks 1b
	ret
end locked

function alternated
	push %rbx
1:	test %edi, %edi
	jne 3f
2:	nop
3:	.pushsection .t_alt, "a"
	.long 1b - .
	.long 1b - .
	.long 0
	.byte 2b - 1b, 0
	.popsection
	pop %rbx
	ret
end alternated

function jump_labelled
1:	jmp 2f
	relative .t_jump 1b 12
	inc %eax
2:	ret
end jump_labelled

function static_caller
1:	call __SCT__target
	relative .t_static 1b 4
	ret
end static_caller

function __SCT__target
	jmp short_branch
	ud2
end __SCT__target

function runtime_constant
	movabs $0x0123456789abcdef, %rax
1:	relative runtime_ptr_x 1b-8
	shr $12, %eax
2:	relative runtime_shift_x 2b-1
	ret
end runtime_constant

function thunked
1:	jmp short_branch
	relative .t_return 1b
end thunked

function answer
	mov $42, %eax
	ret
end answer

function undecodable
	mov $42, %eax
	test %eax, %eax
	je 1f
1:	.byte 0x06
	ret
end undecodable

function no_kprobe
	absolute .t_blacklist no_kprobe
	test %eax, %eax
	je 1f
	inc %eax
1:	ret
end no_kprobe

function no_kprobe.cold
	inc %eax
	ret
end no_kprobe.cold

function __rcu_read_lock
	incl 0x444(%rax)
	ret
end __rcu_read_lock

function hw_breakpoint_exceptions_notify
	xor %eax, %eax
	ret
end hw_breakpoint_exceptions_notify

	.globl __noinstr_text_start
__noinstr_text_start:
function without_instrumentation
	inc %eax
	ret
end without_instrumentation
	.globl __noinstr_text_end
__noinstr_text_end:

function outer
	inc %eax
	.type inner, @function
inner:
	inc %ebx
	ret
	.size inner, . - inner
end outer

	.set alias_of_short, short_branch
	.globl alias_of_short
	.type alias_of_short, @function
	.size alias_of_short, 1

/* enough sites to draw from */
	.altmacro
.macro many index
function many_\index
	movl $\index, 8(%rsp)
	cmp $\index, %edi
	ja 1f
	lea 8(%rdi,%rsi,4), %rax
	add %rax, %rbx
	mov %rbx, (%rax)
1:	ret
end many_\index
.endm
	.set index, 0
	.rept 60
	many %index
	.set index, index + 1
	.endr

.macro table_end section symbol
	.pushsection \section, "a"
	.globl \symbol
\symbol:
	.popsection
.endm
	table_end .t_mcount __stop_mcount_loc
	table_end .t_jump __stop___jump_table
	table_end .t_static __stop_static_call_sites
	table_end .t_locks __smp_locks_end
	table_end .t_alt __alt_instructions_end
	table_end .t_return __return_sites_end
	table_end .t_blacklist __stop_kprobe_blacklist

	.section .init.text, "ax"
	.type initial, @function
initial:
	inc %eax
	ret
	.size initial, . - initial
	.section .note.GNU-stack, "", @progbits

/* As distributions' kernels have it; in Xen's notes, type 3 is no build id. */
	.section .note.Xen, "a", @note
	.long 4, 8, 3
	.asciz "Xen"
	.quad 0xffffffff80000000
