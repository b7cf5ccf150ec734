// SPDX-License-Identifier: GPL-2.0-only
/* text: NAME VALUE, what each function of text_functions.S returns. */
#include <linux/debugfs.h>
#include <linux/irqflags.h>
#include <linux/seq_file.h>

#include "victim.h"

int victim_kernel_text(void);
int victim_destination_reg(void);
int victim_source_reg(void);
int victim_delete_branch(int zero);
int victim_delete_random_inst(void);
void victim_leave_on_stack(void);
int victim_initialization(void);
int victim_pointer(const int *first, const int *second);
int victim_off_by_one(void);

/* Without interrupts, which would write over what was left on the stack. */
static int uninitialised(void)
{
	unsigned long flags;
	int value;

	local_irq_save(flags);
	victim_leave_on_stack();
	value = victim_initialization();
	local_irq_restore(flags);
	return value;
}

static int text_show(struct seq_file *s, void *unused)
{
	static const int first = 11, second = 22;

	seq_printf(s, "kernel_text %d\n", victim_kernel_text());
	seq_printf(s, "destination_reg %d\n", victim_destination_reg());
	seq_printf(s, "source_reg %d\n", victim_source_reg());
	seq_printf(s, "delete_branch %d\n", victim_delete_branch(0));
	seq_printf(s, "delete_random_inst %d\n", victim_delete_random_inst());
	seq_printf(s, "initialization %d\n", uninitialised());
	seq_printf(s, "pointer %d\n", victim_pointer(&first, &second));
	seq_printf(s, "off_by_one %d\n", victim_off_by_one());
	return 0;
}
DEFINE_SHOW_ATTRIBUTE(text);

void text_create(struct dentry *folder)
{
	debugfs_create_file("text", 0400, folder, NULL, &text_fops);
}
