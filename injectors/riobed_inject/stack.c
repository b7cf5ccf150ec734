// SPDX-License-Identifier: GPL-2.0-only
/*
 * Bytes of kernel stacks in use: from a task's saved stack pointer to the top.
 * While all CPUs are stopped, only the tasks that stop them run. Idle tasks,
 * except the first CPU's, are on no list and are left out.
 */
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/sched/task_stack.h>

#include "inject.h"

/* Bytes of a task's stack that are in use; 0 if unknown, or if it must not be hit. */
static unsigned long in_use(const struct task_struct *task, const struct task_struct *without)
{
	unsigned long stack = (unsigned long)task->stack;
	unsigned long sp = task->thread.sp;

	if (!stack || task == without || task->on_cpu || sp < stack || sp >= stack + THREAD_SIZE)
		return 0;
	return stack + THREAD_SIZE - sp;
}

/* The byte with rank bytes of stacks before it; the number of all bytes if there is none. */
static unsigned long find(unsigned long rank, const struct task_struct *without,
			  struct flip_target *target)
{
	struct task_struct *process, *task = &init_task;
	unsigned long before = 0, bytes = in_use(task, without);

	if (rank < bytes)
		goto found;
	before = bytes;
	for_each_process_thread(process, task) {
		bytes = in_use(task, without);
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

bool stack_draw(u64 *random, const struct task_struct *without, struct flip_target *target)
{
	unsigned long bytes = find(~0UL, without, target);

	if (!bytes)
		return false;
	find(next_random(random) % bytes, without, target);
	return true;
}
