/* SPDX-License-Identifier: MIT */
/*
 * Starts the command that only sets how long to record, and notices its end: other processes, or
 * whole processors, are recorded until then (ptah record -p 123 -- sleep 10).
 */
#include "record/command.h"
#include "record/recorder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static bool has_timer(const struct ptah_recorder *r)
{
	return r->backend->timer && r->config.target.kind != PTAH_RECORD_COMMAND &&
	       r->config.target.argv && r->config.target.argv[0];
}

enum ptah_record_problem timer_check(const struct ptah_recorder *r, struct ptah_message *why)
{
	char *path = has_timer(r) ? command_find(r->config.target.argv[0]) : NULL;
	bool found = path && access(path, X_OK) == 0;

	free(path);
	return found || !has_timer(r)
		   ? PTAH_RECORD_FINE
		   : recorder_refuse(why, PTAH_RECORD_NO_TARGET, "%s: command not found",
				     r->config.target.argv[0]);
}

int timer_start(struct ptah_recorder *r)
{
	if (!has_timer(r))
		return 0;
	r->timer = fork();
	if (r->timer == 0) {
		execvp(r->config.target.argv[0], r->config.target.argv);
		_exit(127);
	}
	if (r->timer < 0) {
		r->timer = 0;
		return recorder_fail(r, PTAH_RECORD_NO_MEMORY, PTAH_E_SYSTEM,
				     "%s cannot be started: %s", r->config.target.argv[0],
				     strerror(errno));
	}
	r->status.pid = r->timer;
	return 0;
}

bool timer_is_over(struct ptah_recorder *r)
{
	if (!r->timer || waitpid(r->timer, &r->status.wait_status, WNOHANG) != r->timer)
		return false;
	r->timer = r->status.pid = 0;
	return true;
}
