/* SPDX-License-Identifier: MIT */
/* hwt(4) as a program sees it, on the modelled kernel (devices.h). */
#include "devices.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define CONTEXT 5
#define PID	4242

struct devices devices;
static int numbers[1024]; /* of buffers, by descriptor, + 1 */
static int waiting = -1;  /* where the program waits for its begin */

static struct hwt_vm *find_vm(int number)
{
	struct hwt_thread *thr;
	struct hwt_cpu *cpu;

	TAILQ_FOREACH (thr, &devices.ctx->threads, next) {
		if (thr->thread_id == number)
			return thr->vm;
	}
	TAILQ_FOREACH (cpu, &devices.ctx->cpus, next) {
		if (cpu->cpu_id == number)
			return cpu->vm;
	}
	return NULL;
}

int device_open(const char *path, int flags, mode_t mode)
{
	char below[512];
	int fd, context, number = -1;

	if (!strncmp(path, "/dev/hwt", 8)) {
		if (path[8] && (sscanf(path, "/dev/hwt_%d_%d", &context, &number) != 2 ||
				context != CONTEXT || !find_vm(number))) {
			errno = ENOENT;
			return -1;
		}
		fd = open("/dev/null", flags, mode);
		assert_in_range(fd, 0, 1023);
		numbers[fd] = number + 1;
		return fd;
	}
	if (strncmp(path, devices.output, strlen(devices.output)) != 0) {
		snprintf(below, sizeof(below), "%s%s", devices.root, path);
		path = below;
	}
	return open(path, flags, mode);
}

void *device_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset)
{
	const struct hwt_vm *vm = find_vm(numbers[fd] - 1);

	assert_null(address);
	assert_int_equal(protection, PROT_READ);
	assert_int_equal(flags, MAP_SHARED);
	assert_int_equal(offset, 0);
	assert_int_equal(size, (size_t)vm->npages * PAGE_SIZE);
	return (void *)(uintptr_t)kernel_user_map(vm);
}

static int alloc_context(struct hwt_alloc *alloc)
{
	int error;

	assert_string_equal(alloc->backend_name, "pt");
	if (alloc->bufsize % PAGE_SIZE)
		return EINVAL;
	*alloc->ident = CONTEXT;
	if (alloc->mode == HWT_MODE_CPU)
		return hwt_alloc_cpu_mode(&devices.ctx, alloc->cpu_map->bits, alloc->bufsize);
	assert_int_equal(alloc->pid, PID);
	error = hwt_alloc_thread_mode(devices.proc, devices.threads, devices.thread_count,
				      alloc->bufsize);
	devices.ctx = devices.proc->ctx;
	return error;
}

static int get_records(struct hwt_record_get *get)
{
	int n = *get->nentries;

	if (n < 1 || n > 1024)
		return ENXIO;
	kernel_swi_wait();
	for (*get->nentries = 0; *get->nentries < n; ++*get->nentries)
		if (!hwt_record_get_user(devices.ctx, &get->records[*get->nentries]))
			break;
	return 0;
}

static int act(int number, unsigned long request, void *argument)
{
	const struct hwt_set_config *config = argument;
	const struct hwt_bufptr_get *get = argument;

	if (request == HWT_IOC_ALLOC)
		return number < 0 ? alloc_context(argument) : ENXIO;
	assert_true(number >= 0);
	switch (request) {
	case HWT_IOC_START:
		return hwt_start(devices.ctx);
	case HWT_IOC_STOP:
		ptah_machine_set_cpu(rig.machine, 0);
		return hwt_stop(devices.ctx, NULL, NULL);
	case HWT_IOC_RECORD_GET:
		return get_records(argument);
	case HWT_IOC_SET_CONFIG:
		return hwt_set_config(devices.ctx, config->config, config->config_size);
	case HWT_IOC_BUFPTR_GET:
		return hwt_bufptr_get(find_vm(number), get->ident, get->offset, get->data);
	default:
		fail_msg("ioctl %lu", request);
		return ENXIO;
	}
}

int device_ioctl(int fd, unsigned long request, void *argument)
{
	int error = act(numbers[fd] - 1, request, argument);

	errno = error;
	return error ? -1 : 0;
}

/* The program has the reading end, too. */
int device_pipe(int ends[2])
{
	const int status = pipe(ends);

	waiting = dup(ends[0]);
	return status;
}

/* It begins when tracing has. */
static void expect_begin(void)
{
	char byte;

	if (waiting < 0)
		return;
	assert_int_equal(devices.ctx->state, CTX_STATE_RUNNING);
	assert_int_equal(read(waiting, &byte, 1), 1);
	close(waiting);
	waiting = -1;
}

pid_t device_fork(void)
{
	return PID;
}

pid_t device_waitpid(pid_t pid, int *status, int flags)
{
	assert_int_equal(pid, PID);
	assert_int_equal(flags, WNOHANG);
	expect_begin();
	*status = 3 << 8;
	return devices.run(devices.argument) ? 0 : PID;
}
