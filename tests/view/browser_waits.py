# SPDX-License-Identifier: MIT
"""Waits in the timeline of `ptah view`, for browser.py: a request waits for a mutex that another thread
has. Who that is the program itself prints. Names of the mutex, of the threads and of a file are
hostile."""
import os
import subprocess

import webdriver

MUTEX = b"<b>\"'m&u</b>"
FILE = "<img src=x onerror=document.title=2>"
PROGRAM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

pthread_mutex_t mutex __asm__("@MUTEX@");
static int ready[2];
static long waiter;

/* Is the thread in futex(2)? */
static int waits_for_lock(void)
{
	char path[64], state[64] = "";
	int file;

	snprintf(path, sizeof(path), "/proc/self/task/%ld/syscall", waiter);
	file = open(path, O_RDONLY);
	if (read(file, state, sizeof(state) - 1) < 0)
		state[0] = '\0';
	close(file);
	return atoi(state) == SYS_futex;
}
static void *holder(void *none)
{
	printf("%ld\n", syscall(SYS_gettid));
	prctl(PR_SET_NAME, "<i>holder");
	pthread_mutex_lock(&mutex);
	if (write(ready[1], "", 1) != 1)
		return NULL;
	while (!waits_for_lock())
		;
	pthread_mutex_unlock(&mutex);
	return none;
}
__attribute__((noinline)) int request(void)
{
	const int file = open("@FILE@", O_RDONLY);

	pthread_mutex_lock(&mutex);
	pthread_mutex_unlock(&mutex);
	return file;
}
int main(void)
{
	pthread_t thread;
	char byte;

	if (pipe(ready))
		return 1;
	pthread_mutex_init(&mutex, NULL);
	waiter = syscall(SYS_gettid);
	printf("%ld\n", waiter);
	pthread_create(&thread, NULL, holder, NULL);
	if (read(ready[0], &byte, 1) != 1)
		return 1;
	request();
	pthread_join(thread, NULL);
	return 0;
}
"""


def record(cc):
    """Records it into waits.data. The numbers of the thread that waits, and of the one that has the
    lock; None: no recorder here writes system calls."""
    placeholder = "mutex".ljust(len(MUTEX), "_")
    with open("waits.c", "w", encoding="utf-8") as f:
        f.write(PROGRAM.replace("@MUTEX@", placeholder).replace("@FILE@", FILE))
    subprocess.run([cc, "-g", "-O1", "-pthread", "-o", "waits", "waits.c"], check=True)
    with open("waits", "rb") as f:
        content = f.read().replace(placeholder.encode() + b"\0", MUTEX + b"\0")
    with open("waits", "wb") as f:
        f.write(content)
    done = subprocess.run([os.environ["PTAH"], "record", "-q", "--recorder=native", "-o",
                           "waits.data", "--", "./waits"], check=False, stdout=subprocess.PIPE,
                          text=True)
    if done.returncode:
        return None
    return [int(line) for line in done.stdout.split()]


def middle(page, thread, item):
    """Where the strip of a wait is in the window."""
    return page.browser.js("""
        const t = Ptah.timeline, row = t.my.rows.find(r => r.number == arguments[0]);
        const box = document.querySelector(".tl-bars").getBoundingClientRect(), i = arguments[1];
        return [box.left + (t.toX(i.at) + t.toX(i.end)) / 2,
                box.top + row.top + row.lane / 2 - document.querySelector(".tl-scroll").scrollTop];""",
                           thread, item)


def test_waits(page, rest, waiter, holder):
    """The strip of the wait, the arrow, the panel of the wait and of the call that waited, the keys."""
    browser = page.browser
    page.show("timeline")
    rest(page)
    assert browser.js("return Ptah.state.axis") == "time"
    threads = dict(browser.js("return Ptah.info.threads.map(t => [t.tid, t.number])"))
    waits = browser.js("""
        return Ptah.data.get("waits", {thread: arguments[0], axis: "time", from: 0, to: 1e15, unit: 1})
            .then(a => a.items.filter(i => i.cause == "mutex"))""", threads[waiter])
    assert len(waits) == 1 and waits[0]["waker_tid"] == waits[0]["holder"] == holder, waits
    wait = waits[0]
    browser.js("""Ptah.timeline.reveal(Ptah.timelineWaits.place(arguments[0], arguments[1]), true)""",
               threads[waiter], wait)
    rest(page)
    assert browser.wait("return Ptah.timeline.my.arrows", what="an arrow") >= 1
    browser.mouse(*middle(page, threads[waiter], wait))
    title = browser.wait("return document.querySelector('.tl-panel h2').textContent")
    assert title.startswith("waits: mutex " + MUTEX.decode()), title
    text = browser.js("return document.querySelector('.tl-panel').textContent")
    assert "FUTEX_WAIT" in text and f"until {holder} gave it back in holder" in text, text
    assert f"held by{holder}" in text, text
    page.picture("waits")
    page.check("a wait")
    # To the thread that ended it, in the system call with which it did.
    browser.keys("e")
    rest(page)
    assert browser.js("return Ptah.timeline.my.selected.thread") == threads[holder]
    text = browser.wait("return document.querySelector('.tl-panel').textContent")
    assert "FUTEX_WAKE" in text and "<i>holder" in text, text
    page.check("the thread that ended it")
    # The call that waited: where its time was, and the same chain.
    browser.keys("/", *"request", webdriver.KEYS["enter"])
    browser.wait("return document.querySelector('.tl-panel h2').textContent == 'request'")
    shown = browser.wait("""const l = document.querySelector(".tl-waits:not([hidden]) li");
                            return l && l.textContent""", what="what the call waited for")
    assert MUTEX.decode() in shown and f"<i>holder {holder}" in shown, shown
    links = browser.js("return Ptah.timelineWaits.chain().links.filter(l => l.depth == 0).length")
    assert links >= 1
    browser.keys("e")
    assert browser.js("return Ptah.timeline.my.selected.item.cause") == "mutex"
    # Its other system call is named with its arguments.
    calls = browser.js("""
        return Ptah.data.get("waits", {thread: arguments[0], axis: "time", from: 0, to: 1e15, unit: 1})
            .then(a => a.items.filter(i => (i.call || "").includes("onerror")))""", threads[waiter])
    assert len(calls) == 1 and calls[0]["call"].startswith("openat(AT_FDCWD, \"" + FILE), calls
    # A part has what the whole has there, and nothing else.
    parts = browser.js("""
        const get = (from, to) => Ptah.data.get("waits", {thread: arguments[0], axis: "time", from: from,
                                                          to: to, unit: 1}).then(a => a.items);
        const [from, to] = [arguments[1], arguments[2]];
        return Promise.all([get(0, 1e15), get(from, to)]).then(([all, part]) =>
            [all.filter(i => i.end >= from && i.at <= to), part].map(l => JSON.stringify(l)))""",
                       threads[waiter], calls[0]["at"], calls[0]["end"] + 100000)
    assert parts[0] == parts[1] and "onerror" in parts[0], parts
    browser.js("Ptah.timelineWaits.go(Ptah.timelineWaits.place(arguments[0], arguments[1]))",
               threads[waiter], calls[0])
    text = browser.wait("return document.querySelector('.tl-call').textContent")
    assert FILE in text and "-1 ENOENT" in text, text
    page.check("a system call")
    browser.keys("l")
    page.settle()
    page.check("the legend")
    browser.keys("l")
