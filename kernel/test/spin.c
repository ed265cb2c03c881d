// SPDX-License-Identifier: GPL-2.0
/*
 * For tests: a kernel that hangs. Loading the module keeps a CPU, with interrupts off.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/delay.h>
#include <linux/module.h>

static unsigned int seconds = 10;
module_param(seconds, uint, 0444);
MODULE_PARM_DESC(seconds, "how long it takes to load the module");

static int __init spin_init(void)
{
	unsigned int i;

	local_irq_disable();
	for (i = 0; i < seconds; i++)
		mdelay(1000);
	local_irq_enable();
	return 0;
}
module_init(spin_init);

static void __exit spin_exit(void)
{
}
module_exit(spin_exit);

MODULE_DESCRIPTION("Keeps a CPU with interrupts off, for tests");
MODULE_LICENSE("GPL");
