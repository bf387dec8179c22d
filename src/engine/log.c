/* SPDX-License-Identifier: MIT */
/*
 * Lines for the system's log (hal->log): what a driver's user needs to know who looks for the cause
 * of a missing trace. Each line comes at most once between two starts of a capture, so that no
 * condition can flood the log, however often it occurs.
 */
#include "engine/internal.h"

static const char *const lines[LOG_LINES] = {
    [LOG_OBSTACLE] = "cannot be traced: %s",
    [LOG_NO_PMI] = "the port cannot deliver PMIs, captures do without them",
    [LOG_BAD_MEMORY] = "alloc() returned memory that is too small, misaligned or out of reach: %x",
    [LOG_IN_USE] = "not traced: another tracer is at work, TraceEn is 1",
    [LOG_TAKEN] = "not traced: another capture has this processor",
    [LOG_VMX] = "not traced: VMX operation, and IA32_VMX_MISC[14] is 0",
    [LOG_OFFLINE] = "not traced: it goes offline",
    [LOG_FAULT] = "not traced: MSR %x raised #GP",
    [LOG_TABLES] = "not traced: page %u of the tables was overwritten",
    [LOG_ERROR] = "tracing failed at position %x: STATUS.Error, a table or region is invalid",
    [LOG_REGISTERS] = "tracing failed at position %x: others wrote the output registers",
    [LOG_CLEARED] = "code ran untraced: TraceEn was cleared by VMXON, a reset or another driver",
    [LOG_FULL] = "the buffer is full at position %x, nothing is traced until there is room",
    [LOG_LOST] = "%u bytes were overwritten before they were consumed",
};

struct line {
	char text[LOG_LENGTH + 1];
	size_t n;
};

/* What does not fit is left out. */
static void add_char(struct line *l, char c)
{
	if (l->n < LOG_LENGTH)
		l->text[l->n++] = c;
}

static void add_text(struct line *l, const char *text)
{
	while (*text)
		add_char(l, *text++);
}

static void add_number(struct line *l, uint64_t number, unsigned base)
{
	char digits[20];
	unsigned n = 0;

	do {
		digits[n++] = "0123456789abcdef"[number % base];
		number /= base;
	} while (number);
	while (n)
		add_char(l, digits[--n]);
}

static void write_line(const struct ptah_hal *hal, void *port, unsigned cpu, unsigned what,
		       uint64_t value, const char *name)
{
	const char *at = lines[what];
	struct line l;

	if (!hal->log)
		return;
	l.n = 0;
	add_text(&l, "ptah: cpu ");
	add_number(&l, cpu, 10);
	add_text(&l, ": ");
	for (; *at; at++) {
		if (*at != '%') {
			add_char(&l, *at);
		} else if (*++at == 's') {
			add_text(&l, name);
		} else if (*at == 'u') {
			add_number(&l, value, 10);
		} else {
			add_text(&l, "0x");
			add_number(&l, value, 16);
		}
	}
	l.text[l.n] = 0;
	hal->log(port, l.text);
}

void log_port(const struct ptah_hal *hal, void *port, unsigned what, uint64_t value)
{
	write_line(hal, port, hal->cpu(port), what, value, "");
}

void log_capture(struct ptah_capture *c, unsigned what, uint64_t value)
{
	if (!(atomic_fetch_or(&c->logged, 1u << what) >> what & 1))
		log_port(c->engine->hal, c->engine->port, what, value);
}

void log_obstacles(const struct ptah_engine *engine)
{
	uint32_t logged = 0;
	unsigned n;

	for (n = 0; n < engine->cpus; n++) {
		const struct ptah_caps *caps = ptah_engine_caps(engine, n);

		if (!caps || !caps->obstacle || logged >> caps->obstacle & 1)
			continue;
		logged |= 1u << caps->obstacle;
		write_line(engine->hal, engine->port, n, LOG_OBSTACLE, 0,
			   ptah_caps_obstacle_name(caps->obstacle));
	}
}
