// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bytes of kernel stacks in use: from the stack pointer to the top. That of a
 * task that runs is where its CPU was interrupted. If it was on another stack
 * there, as in an interrupt, nothing is known of the task's own, and it is left
 * out. Idle tasks, except the first CPU's, are on no list and are left out, too.
 */
#include <linux/ptrace.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>

#include "inject.h"

static unsigned long stack_pointer(const struct task_struct *task)
{
	struct pt_regs *regs;

	if (!task->on_cpu)
		return task->thread.sp;
	regs = trigger_interrupted(task_cpu(task));
	if (!regs)
		return 0;
	/* In user mode its stack holds its registers only. */
	return user_mode(regs) ? (unsigned long)task_pt_regs(task) : regs->sp;
}

/* Bytes of a task's stack that are in use; 0 if unknown. */
static unsigned long in_use(const struct task_struct *task)
{
	unsigned long stack = (unsigned long)task->stack;
	unsigned long sp = stack_pointer(task);

	if (!stack || sp < stack || sp >= stack + THREAD_SIZE)
		return 0;
	return stack + THREAD_SIZE - sp;
}

/* The byte with rank bytes of stacks before it; the number of all bytes if there is none. */
static unsigned long find(unsigned long rank, struct flip_target *target)
{
	struct task_struct *process, *task = &init_task;
	unsigned long before = 0, bytes = in_use(task);

	if (rank < bytes)
		goto found;
	before = bytes;
	for_each_process_thread(process, task) {
		bytes = in_use(task);
		if (rank - before < bytes)
			goto found;
		before += bytes;
	}
	return before;
found:
	target->at = (u8 *)task->stack + THREAD_SIZE - bytes + (rank - before);
	target->name = task->comm;
	target->number = task->pid;
	target->offset = bytes - (rank - before);
	return rank;
}

bool stack_draw(u64 *random, struct flip_target *target)
{
	unsigned long bytes = find(~0UL, target);

	if (!bytes)
		return false;
	find(next_random(random) % bytes, target);
	return true;
}
