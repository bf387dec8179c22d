/* SPDX-License-Identifier: MIT */
/*
 * hwt(4) as a program sees it: /dev/hwt and the devices of the buffers, on the modelled kernel. The
 * program that is traced is a function of the test.
 */
#ifndef PTAH_TESTS_PORTS_FREEBSD_DEVICES_H
#define PTAH_TESTS_PORTS_FREEBSD_DEVICES_H

#include "kernel.h"

#include <sys/types.h>

/* sys/hwt.h */

enum hwt_request {
	HWT_IOC_ALLOC,
	HWT_IOC_START,
	HWT_IOC_STOP,
	HWT_IOC_RECORD_GET,
	HWT_IOC_BUFPTR_GET,
	HWT_IOC_SET_CONFIG
};

struct hwt_alloc {
	size_t bufsize;
	int mode;
	pid_t pid;
	cpuset_t *cpu_map;
	size_t cpusetsize;
	const char *backend_name;
	int *ident;
	int kqueue_fd;
};

struct hwt_start {
	int reserved;
};

struct hwt_stop {
	int reserved;
};

struct hwt_record_get {
	struct hwt_record_user_entry *records;
	int *nentries;
	int wait;
};

struct hwt_bufptr_get {
	int *ident;
	vm_offset_t *offset;
	uint64_t *data;
};

struct hwt_set_config {
	int pause_on_mmap;
	void *config;
	size_t config_size;
	int config_version;
};

/* What there is to trace. */
struct devices {
	const char *root;   /* where the machine's files are */
	const char *output; /* paths below it are the host's */
	struct proc *proc;
	struct thread **threads;
	int thread_count;
	/* The program, a step at a time. False: it has ended. */
	bool (*run)(void *argument);
	void *argument;
	/* Set: the context of HWT_IOC_ALLOC. */
	struct hwt_context *ctx;
};

extern struct devices devices;

/* port/freebsd/record/record.c, and what it calls in place of the system's functions. */
int ptah_hwt_main(int argc, char *argv[]);
int device_open(const char *path, int flags, mode_t mode);
int device_ioctl(int fd, unsigned long request, void *argument);
void *device_mmap(void *address, size_t size, int protection, int flags, int fd, off_t offset);
int device_pipe(int ends[2]);
pid_t device_fork(void);
pid_t device_waitpid(pid_t pid, int *status, int flags);

#endif
