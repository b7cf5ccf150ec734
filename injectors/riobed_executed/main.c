// SPDX-License-Identifier: GPL-2.0-only
/*
 * Tells an emulator which tasks run: at each task switch a no-operation with a
 * known displacement, which harness/emulator/executed.c looks for. The tasks that
 * count are those of the session that loads the module.
 */
#include <linux/module.h>
#include <linux/sched/signal.h>
#include <linux/sched/task_stack.h>
#include <linux/tracepoint.h>

#include <asm/syscall.h>

static struct tracepoint *sched_switch;
static struct pid *session;

/* A task that is about to become another program, or none. */
static bool ends(struct task_struct *task)
{
	if (task->flags & PF_EXITING || task->signal->flags & SIGNAL_GROUP_EXIT)
		return true;
	switch (syscall_get_nr(task, task_pt_regs(task))) {
	case __NR_execve:
	case __NR_execveat:
	case __NR_exit:
	case __NR_exit_group:
		return true;
	}
	return false;
}

static bool counts(struct task_struct *task)
{
	return !(task->flags & PF_KTHREAD) && !ends(task) && task_session(task) == session;
}

static void switched(void *unused, bool preempt, struct task_struct *prev,
		     struct task_struct *next, unsigned int prev_state)
{
	if (counts(next))
		asm volatile(".byte 0x0f, 0x1f, 0x80, 0x72, 0x69, 0x62, 0x6f");
	else
		asm volatile(".byte 0x0f, 0x1f, 0x80, 0x72, 0x69, 0x62, 0x70");
}

static void find(struct tracepoint *each, void *unused)
{
	if (!strcmp(each->name, "sched_switch"))
		sched_switch = each;
}

static int __init executed_init(void)
{
	session = get_pid(task_session(current));
	for_each_kernel_tracepoint(find, NULL);
	if (!session || !sched_switch)
		return -ENOENT;
	return tracepoint_probe_register(sched_switch, switched, NULL);
}

/* No exit: the guest is thrown away. */
module_init(executed_init);

MODULE_DESCRIPTION("marks the task switches of a session for an emulator");
MODULE_LICENSE("GPL");
