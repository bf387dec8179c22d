/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * The engine's lines for the system's log. It writes them in NMIs and under the scheduler's locks,
 * where printk() may not be called: they are kept, and printed by an interrupt that follows. A line
 * that finds no place is dropped.
 */
#include "module.h"

#include <linux/atomic.h>
#include <linux/printk.h>
#include <linux/string.h>

enum {
	LINE_FREE,
	LINE_WRITING,
	LINE_READY
};

static struct {
	atomic_t state;
	char text[124];
} lines[16];

static void print_lines(struct irq_work *work)
{
	unsigned int n;

	for (n = 0; n < ARRAY_SIZE(lines); n++) {
		if (atomic_read_acquire(&lines[n].state) != LINE_READY)
			continue;
		/* The text begins with "ptah: ". */
		printk(KERN_INFO "%s\n", lines[n].text);
		atomic_set_release(&lines[n].state, LINE_FREE);
	}
}

static struct irq_work printer = IRQ_WORK_INIT(print_lines);

void port_log(void *port, const char *text)
{
	unsigned int n;

	for (n = 0; n < ARRAY_SIZE(lines); n++) {
		if (atomic_cmpxchg(&lines[n].state, LINE_FREE, LINE_WRITING) != LINE_FREE)
			continue;
		strscpy(lines[n].text, text, sizeof(lines[n].text));
		atomic_set_release(&lines[n].state, LINE_READY);
		irq_work_queue(&printer);
		return;
	}
}

void port_log_end(void)
{
	irq_work_sync(&printer);
}
