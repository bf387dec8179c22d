/* SPDX-License-Identifier: MIT */
/* The list of recorded processes, and waiting for their end. */
#include "record/qemu/processes.h"

#include "base/pidfd.h"
#include "record/proc_stat.h"
#include "record/recorder.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static size_t *bucket_of(const struct processes *p, int32_t pid)
{
	return &p->buckets[(uint32_t)pid % p->capacity];
}

struct process *processes_find(const struct processes *p, int32_t pid)
{
	for (size_t i = p->count ? *bucket_of(p, pid) : 0; i; i = p->list[i - 1].next)
		if (p->list[i - 1].pid == pid)
			return &p->list[i - 1];
	return NULL;
}

static void link_process(struct processes *p, size_t i)
{
	size_t *bucket = bucket_of(p, p->list[i].pid);

	p->list[i].next = *bucket;
	*bucket = i + 1;
}

static void unlink_process(struct processes *p, size_t i)
{
	size_t *at = bucket_of(p, p->list[i].pid);

	while (*at != i + 1)
		at = &p->list[*at - 1].next;
	*at = p->list[i].next;
}

void process_set_name(struct process *process, const char *name)
{
	snprintf(process->name, sizeof(process->name), "%.15s", name);
}

static bool grow(struct processes *p)
{
	size_t more = p->capacity ? 2 * p->capacity : 16;
	struct process *list = realloc(p->list, more * sizeof(*list));
	size_t *buckets;
	void *polled;

	if (!list)
		return false;
	p->list = list;
	polled = realloc(p->polled, more * sizeof(struct pollfd));
	if (!polled)
		return false;
	p->polled = polled;
	buckets = calloc(more, sizeof(*buckets));
	if (!buckets)
		return false;
	free(p->buckets);
	p->buckets = buckets;
	p->capacity = more;
	for (size_t i = 0; i < p->count; i++)
		link_process(p, i);
	return true;
}

struct process *processes_add(struct processes *p, int32_t pid, int32_t parent, const char *name)
{
	struct process *process;

	if (p->count == p->capacity && !grow(p))
		return NULL;
	process = &p->list[p->count++];
	*process = (struct process){.pid = pid, .parent = parent};
	link_process(p, p->count - 1);
	process_set_name(process, name);
	process->fd = (int)syscall(SYS_pidfd_open, pid, 0);
	return process;
}

/* poll() takes no more than RLIMIT_NOFILE: those without a descriptor are not among them. */
void processes_wait(struct processes *p, int timeout_ms)
{
	struct pollfd *polled = p->polled;
	nfds_t n = 0;

	for (size_t i = 0; i < p->count; i++)
		if (p->list[i].fd >= 0)
			polled[n++] = (struct pollfd){.fd = p->list[i].fd, .events = POLLIN};
	if (poll(polled, n, timeout_ms) < 0)
		return;
	for (size_t i = 0; i < p->count; i++) {
		struct process *process = &p->list[i];

		if (process->fd >= 0)
			process->dead = polled++->revents || process->dead;
		else
			process->dead = process->dead || (kill(process->pid, 0) && errno == ESRCH);
	}
}

void processes_set_end(struct processes *p, struct ptah_recorder *r, int32_t pid, int wait_status)
{
	struct process *process = processes_find(p, pid);

	if (process) {
		process->end_known = true;
		process->wait_status = wait_status;
	} else {
		recorder_process_ended(r, pid, wait_status);
	}
}

/*
 * While the process is a zombie, /proc says how it ended; later its pidfd does (since Linux 6.15),
 * which knows it before /proc has forgotten it.
 */
static bool ask_kernel(struct process *process)
{
	struct proc_stat stat;

	if (!proc_stat_read(process->pid, &stat))
		return process->fd >= 0 &&
		       pidfd_wait_status(process->fd, &process->wait_status) > 0;
	if (!stat.ended || !stat.exit_code)
		return false;
	process->wait_status = stat.exit_code;
	return true;
}

void process_find_end(struct process *process, struct ptah_recorder *r)
{
	struct recorder_end end = {.pid = process->pid, .tid = process->pid, .comm = process->name};

	if (process->end_known || !process->dead || !ask_kernel(process))
		return;
	process->end_known = true;
	if (!WIFSIGNALED(process->wait_status))
		return;
	end.signal = WTERMSIG(process->wait_status);
	recorder_note_end(r, &end);
}

void process_tell_end(struct process *process, struct ptah_recorder *r)
{
	if (process->end_known && !process->end_told)
		recorder_process_ended(r, process->pid, process->wait_status);
	process->end_told = process->end_known;
}

static void release(struct process *process)
{
	if (process->fd >= 0)
		close(process->fd);
	free(process->native);
}

void processes_remove(struct processes *p, size_t i)
{
	const size_t last = p->count - 1;

	release(&p->list[i]);
	unlink_process(p, i);
	if (i != last) {
		unlink_process(p, last);
		p->list[i] = p->list[last];
		link_process(p, i);
	}
	p->count--;
}

void processes_free(struct processes *p)
{
	for (size_t i = 0; i < p->count; i++)
		release(&p->list[i]);
	free(p->list);
	free(p->polled);
	free(p->buckets);
	*p = (struct processes){0};
}

bool process_thread_runs(int32_t tid)
{
	struct proc_stat stat;

	/* D: it waits for a page. */
	return proc_stat_read(tid, &stat) && (stat.state == 'R' || stat.state == 'D');
}
