/* SPDX-License-Identifier: MIT */
/*
 * The calls of /dev/ptah (port/linux/ptah_ioctl.h), each with a sentence about its failure. What
 * the driver answers is checked before it is used: sizes, positions and texts.
 */
#ifndef PTAH_RECORD_MODULE_DEVICE_H
#define PTAH_RECORD_MODULE_DEVICE_H

#include "ptah_ioctl.h"
#include "record/recorder.h"

#include <ptah/engine/caps.h>
#include <ptah/engine/capture_page.h>

struct device {
	int fd;	      /* -1: closed */
	int captures; /* the descriptor of the pool or the set; -1: none */
	bool set;
	uint32_t cpus;	      /* the processors' numbers are below */
	uint64_t limit, used; /* bytes of all buffers together */
	struct ptah_caps caps;
};

/* Opens it and asks for the processor's capabilities. On failure it is closed. */
enum ptah_record_problem device_open(struct device *d, struct ptah_message *why);
/* Everything that is not mapped any more is freed. */
void device_close(struct device *d);

/* What all captures of a recording have in common. */
struct device_request {
	const struct ptah_trace_config *trace;
	uint8_t policy;	 /* enum ptah_capture_policy */
	uint64_t buffer; /* bytes */
	bool paused;
};

/* Makes `count` captures for threads; `inherit`: what these threads create takes others of them. */
enum ptah_record_problem device_make_pool(struct device *d, const struct device_request *request,
					  uint32_t count, bool inherit, struct ptah_message *why);
/* Makes captures of these processors; none: of all, also of those that come online later. */
enum ptah_record_problem device_make_set(struct device *d, const struct device_request *request,
					 const int32_t *cpus, size_t cpu_count,
					 struct ptah_message *why);

/* A capture: its descriptor, and what is mapped. */
struct device_mapping {
	int fd;
	int32_t cpu;	  /* its processor; -1: it follows a thread */
	int32_t pid, tid; /* of the thread */
	uint64_t time;	  /* when the thread was created, a TSC; 0: before the recording */
	void *page;
	const void *buffer;
	size_t page_size, buffer_size;
};

/*
 * Gets the capture of a thread that exists, of the next thread that was created (PTAH_RECORD_FINE
 * and fd -1: there is none), or of a processor (in the same way), and maps it. `missed`: threads
 * that found no capture so far.
 */
enum ptah_record_problem device_take(struct device *d, int32_t tid, struct device_mapping *mapping,
				     struct ptah_message *why);
enum ptah_record_problem device_next(struct device *d, struct device_mapping *mapping,
				     uint64_t *missed, struct ptah_message *why);
enum ptah_record_problem device_member(struct device *d, int32_t cpu,
				       struct device_mapping *mapping, struct ptah_message *why);
/* Unmaps and closes. */
void device_release(struct device_mapping *mapping);

/*
 * START, STOP, PAUSE or RESUME of a capture, or of the set. That a buffer is full is no failure:
 * tracing continues when there is room.
 */
enum ptah_record_problem device_control(int fd, unsigned long call, struct ptah_message *why);

struct device_state {
	uint32_t state; /* enum ptah_capture_state */
	bool ended;	/* the thread has */
};

bool device_state(const struct device_mapping *mapping, struct device_state *state);
/* PTAH_IOC_SYNC. */
void device_sync(const struct device_mapping *mapping);
/* poll() reports the next record after so many. */
void device_seen(const struct device_mapping *mapping, uint32_t records);

#endif
