// SPDX-License-Identifier: GPL-2.0-only
/*
 * Hooks through the function tracer. FTRACE_OPS_FL_RECURSION and _RCU are not set:
 * the hooks call nothing that is hooked and use no RCU, so they are called directly.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include "hooks.h"

const struct hook *hook_at(const struct hook *hooks, unsigned int count, unsigned long ip)
{
	while (count--)
		if ((unsigned long)hooks[count].function == ip)
			return &hooks[count];
	return NULL;
}

int hooks_register(struct ftrace_ops *ops, const struct hook *hooks, unsigned int count)
{
	unsigned int i;
	int ret = 0;

	for (i = 0; i < count && !ret; i++) {
		ret = ftrace_set_filter_ip(ops, (unsigned long)hooks[i].function, 0, !i);
		if (ret)
			pr_err("cannot hook %s: error %d\n", hooks[i].name, ret);
	}
	if (!ret)
		ret = register_ftrace_function(ops);
	if (ret)
		ftrace_free_filter(ops);
	return ret;
}

void hooks_unregister(struct ftrace_ops *ops)
{
	unregister_ftrace_function(ops);
	ftrace_free_filter(ops);
}
