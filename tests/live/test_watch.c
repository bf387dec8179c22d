/* SPDX-License-Identifier: MIT */
/* Watches: what their text means, which ends of processes they are about, and how rates count. */
#include "test.h"

#include "live/live.h"

#include <ptah/live.h>

#include <signal.h>

static struct ptah_watch parse(const char *text)
{
	struct ptah_message why = {""};
	struct ptah_watch w;

	if (ptah_watch_parse(text, &w, &why) < 0)
		fail_msg("%s", why.text);
	return w;
}

TEST(calls)
{
	static const struct {
		const char *text;
		struct ptah_watch watch;
	} cases[] = {
	    {"parse@./server > 2ms", {PTAH_WATCH_TIME, 0, "parse", "server", 2000000}},
	    {"parse > 10 us", {PTAH_WATCH_TIME, 0, "parse", "", 10000}},
	    {"parse > 1.5ms", {PTAH_WATCH_TIME, 0, "parse", "", 1500000}},
	    {"parse > 0.0625 s", {PTAH_WATCH_TIME, 0, "parse", "", 62500000}},
	    {"parse > 2.00000000099us", {PTAH_WATCH_TIME, 0, "parse", "", 2000}},
	    {"  parse>3s", {PTAH_WATCH_TIME, 0, "parse", "", 3000000000}},
	    {"f@/bin/x > 5000 instructions", {PTAH_WATCH_INSTRUCTIONS, 0, "f", "/bin/x", 5000}},
	    {"waits parse > 2ms", {PTAH_WATCH_WAITS, 0, "parse", "", 2000000}},
	    {"waits a<b>@./c > 1.5s", {PTAH_WATCH_WAITS, 0, "a<b>", "c", 1500000000}},
	    {"waitstate > 1ns", {PTAH_WATCH_TIME, 0, "waitstate", "", 1}},
	    {"enter fail@libfoo.so", {PTAH_WATCH_ENTER, 0, "fail", "libfoo.so", 0}},
	    {"enter a<b>::c", {PTAH_WATCH_ENTER, 0, "a<b>::c", "", 0}},
	    {"entertain > 1ns", {PTAH_WATCH_TIME, 0, "entertain", "", 1}},
	    {"a<b> > 1ns", {PTAH_WATCH_TIME, 0, "a<b>", "", 1}},
	    {"rate parse > 1000/s", {PTAH_WATCH_RATE, 0, "parse", "", 1000}},
	    {"signal SEGV", {PTAH_WATCH_SIGNAL, 0, "", "", SIGSEGV}},
	    {"signal sigabrt", {PTAH_WATCH_SIGNAL, 0, "", "", SIGABRT}},
	    {"signal 9", {PTAH_WATCH_SIGNAL, 0, "", "", SIGKILL}},
	    {"signal", {PTAH_WATCH_SIGNAL, 0, "", "", 0}},
	    {"exit != 0", {PTAH_WATCH_EXIT, PTAH_WATCH_UNEQUAL, "", "", 0}},
	    {"exit = 3", {PTAH_WATCH_EXIT, PTAH_WATCH_EQUAL, "", "", 3}},
	    {"exit > 1", {PTAH_WATCH_EXIT, PTAH_WATCH_MORE, "", "", 1}},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		const struct ptah_watch w = parse(cases[i].text), *is = &cases[i].watch;

		assert_int_equal(w.kind, is->kind);
		assert_int_equal(w.compare, is->compare);
		assert_string_equal(w.function, is->function);
		assert_string_equal(w.file, is->file);
		assert_int_equal(w.limit, is->limit);
	}
}

TEST(no_watches)
{
	static const char *const cases[] = {"",
					    "parse",
					    "parse > 2",
					    "parse > x ms",
					    "> 2ms",
					    "enter",
					    "enter @x",
					    "rate f > 2ms",
					    "waits f",
					    "waits > 2ms",
					    "waits f > 2 instructions",
					    "rate f > 10/min",
					    "signal NONE",
					    "signal 0",
					    "signal 99",
					    "exit",
					    "exit 0",
					    "exit != 0 x",
					    "f > 1 h",
					    "f > -1 ms",
					    "f > 1. ms",
					    "f > .5 ms",
					    "f > 1.5.5 ms",
					    "f > 1.5 instructions",
					    "rate f > 1.5/s",
					    "f > 99999999999999999 s"};
	struct ptah_message why;
	struct ptah_watch w;

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		why.text[0] = '\0';
		if (ptah_watch_parse(cases[i], &w, &why) != PTAH_E_INVAL)
			fail_msg("'%s' was taken", cases[i]);
		assert_true(*why.text);
	}
	assert_int_equal(ptah_watch_parse("signal", &w, NULL), 0);
	assert_int_equal(ptah_watch_parse("no", &w, NULL), PTAH_E_INVAL);
}

/* A file is one by its path, or by the end of it after a slash. */
TEST(functions)
{
	const struct ptah_watch any = parse("enter f"), one = parse("f@lib/x.so > 1ms"),
				end = parse("signal");

	assert_true(ptah_watch_is_of(&any, "f", "/usr/lib/x.so"));
	assert_true(ptah_watch_is_of(&any, "f", NULL));
	assert_false(ptah_watch_is_of(&any, "ff", "/usr/lib/x.so"));
	assert_false(ptah_watch_is_of(&any, NULL, "/usr/lib/x.so"));
	assert_true(ptah_watch_is_of(&one, "f", "/usr/lib/x.so"));
	assert_true(ptah_watch_is_of(&one, "f", "lib/x.so"));
	assert_false(ptah_watch_is_of(&one, "f", "/usr/mylib/x.so"));
	assert_false(ptah_watch_is_of(&one, "f", "x.so"));
	assert_false(ptah_watch_is_of(&one, "f", NULL));
	assert_false(ptah_watch_is_of(&end, "f", "/usr/lib/x.so"));
}

/* Counts `n` calls, a millisecond apart. Returns how many were reported. */
static unsigned count(struct live_rate *rate, uint64_t limit, uint64_t ms, unsigned n)
{
	unsigned hits = 0;
	uint64_t most;

	for (unsigned i = 0; i < n; i++)
		if (live_count_rate(rate, limit, (ms + i) * 1000000, &most)) {
			assert_true(most > limit);
			hits++;
		}
	return hits;
}

/* One in each second, in whatever order threads are decoded whose times are seconds apart. */
TEST(rates)
{
	struct live_rate rate = {.newest = 0};

	assert_int_equal(count(&rate, 100, 0, 100), 0);
	assert_int_equal(count(&rate, 100, 5000, 100), 0);
	assert_int_equal(count(&rate, 100, 5100, 100), 1);
	assert_int_equal(count(&rate, 100, 3000, 200), 1);
	assert_int_equal(count(&rate, 100, 5200, 200), 0);
	assert_int_equal(count(&rate, 100, 3200, 200), 0);
	assert_int_equal(count(&rate, 100, 7000, 200), 1);
	assert_int_equal(count(&rate, 100, 5400, 200), 0);
	/* That at 6.1 s is a second from both others. */
	assert_int_equal(count(&rate, 100, 6000, 2000), 1);
	assert_int_equal(count(&rate, 100, 100000, 10000), 10);
	assert_int_equal(count(&rate, 100, 50000, 1000), 0); /* too late */
}

/* Statuses as waitpid() has them on Linux: a code times 256, or a signal. */
TEST(ends)
{
	struct ptah_watch w = parse("signal SEGV");

	assert_true(ptah_watch_ended(&w, SIGSEGV));
	assert_false(ptah_watch_ended(&w, SIGABRT));
	assert_false(ptah_watch_ended(&w, SIGSEGV << 8));
	w = parse("signal");
	assert_true(ptah_watch_ended(&w, SIGABRT));
	assert_false(ptah_watch_ended(&w, 0));
	w = parse("exit != 0");
	assert_true(ptah_watch_ended(&w, 1 << 8));
	assert_false(ptah_watch_ended(&w, 0));
	assert_false(ptah_watch_ended(&w, SIGSEGV));
	w = parse("exit > 1");
	assert_false(ptah_watch_ended(&w, 1 << 8));
	assert_true(ptah_watch_ended(&w, 2 << 8));
	w = parse("f > 1ns");
	assert_false(ptah_watch_ended(&w, 1 << 8));
}

/* Ticks of a thread at a mark: when it was, and how many of them the trace was off. */
static uint64_t pass(struct live_waits *w, uint64_t tsc, uint64_t off)
{
	const struct ptah_call_mark m = {.tsc = tsc, .thread = {.ticks = tsc, .off_ticks = off}};

	return live_waits_pass(w, &m);
}

static void take_switch(struct ptah_session *s, uint64_t tsc, bool out, bool preempted)
{
	const struct perfdata_record r = {.tid = 7, .out = out, .preempted = preempted};

	assert_int_equal(absences_take(s, &r, tsc), 0);
}

/* What is no wait: the recorder makes room, another thread runs, a system call takes long. */
TEST(waits)
{
	struct ptah_session s = {0};
	struct live_waits w = {0};

	take_switch(&s, 110000, true, false); /* in a system call from 100000 to 150000 */
	take_switch(&s, 140000, false, false);
	take_switch(&s, 210000, true, false); /* while the trace was on */
	take_switch(&s, 240000, false, false);
	take_switch(&s, 310000, true, true); /* another thread ran */
	take_switch(&s, 340000, false, false);
	take_switch(&s, 510000, true, false); /* not back yet */
	w.absences = absences_of(&s, 7);
	assert_int_equal(pass(&w, 50000, 0), 0);
	assert_int_equal(pass(&w, 160000, 50000), 30000);
	assert_int_equal(pass(&w, 0, 50000), 30000); /* no time is known */
	assert_int_equal(pass(&w, 260000, 50000), 30000);
	assert_int_equal(pass(&w, 360000, 100000), 30000);
	assert_int_equal(pass(&w, 460000, 190000), 30000); /* it ran in the kernel */
	assert_int_equal(pass(&w, 560000, 250000), 30000);
	absences_free(&s.absences);
	/* Without switches all the time in the kernel counts. */
	w = (struct live_waits){.no_switches = true};
	assert_int_equal(pass(&w, 50000, 0), 0);
	assert_int_equal(pass(&w, 160000, 50000), 50000);
	assert_int_equal(pass(&w, 260000, 50500), 50000); /* too short to be one */
}
