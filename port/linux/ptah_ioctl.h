/* SPDX-License-Identifier: MIT OR GPL-2.0-only */
/*
 * /dev/ptah: the capture engine (engine.h) in a Linux kernel, for programs in user space. C11
 * and C++, 64-bit programs alone. The kernel module of this folder is on the other side.
 *
 *	int device = open(PTAH_IOC_DEVICE, O_RDWR | O_CLOEXEC);
 *
 *	ptah_ioc_trace_set(&trace, &config);		what to trace, as trace_config.h has it
 *	want = (struct ptah_ioc_capture){
 *	    .size = sizeof(want), .trace = (uintptr_t)&trace, .cpu = 3};
 *	int capture = ioctl(device, PTAH_IOC_CAPTURE, &want);
 *	ioctl(capture, PTAH_IOC_STATUS, &status);	status.buffer, status.page: their bytes
 *	buffer = mmap(NULL, status.buffer, PROT_READ, MAP_SHARED, capture, PTAH_IOC_MAP_BUFFER);
 *	page = mmap(NULL, status.page, PROT_READ | PROT_WRITE, MAP_SHARED, capture,
 *		    PTAH_IOC_MAP_PAGE);
 *	ptah_capture_reader_init(&reader, page, buffer);	capture_page.h
 *	ioctl(capture, PTAH_IOC_START, NULL);
 *	...
 *	ioctl(capture, PTAH_IOC_STOP, NULL);
 *
 * Everything is a file descriptor, close-on-exec:
 *
 *	the device	INFO, CAPS; CAPTURE, SET, POOL make the other three
 *	a capture	of one processor, or of one thread wherever it runs
 *	a set		captures of several processors that are controlled as one (captures.h)
 *	a pool		captures of threads that were allocated beforehand; those of new threads and
 *			processes are taken by the kernel before their first instruction
 *
 * Lifetime. A capture is stopped and its memory is freed when its last descriptor is closed
 * and its last mapping is gone. The end of a process does both, and mappings are not inherited by
 * fork(). Descriptors are: close them in children. A capture of a set or a pool keeps what it
 * belongs to, but a set stops when its own descriptor is closed.
 *
 * Rights. open() needs CAP_PERFMON or CAP_SYS_ADMIN of the first user namespace: a trace shows
 * what others execute. Kernel code (PTAH_IOC_TRACE_OS) is also refused where the kernel is locked
 * down for confidentiality. Buffers are charged to the memory control group of the process that
 * makes them, and are limited by the module's parameter `limit` (megabytes, for all together).
 *
 * Perf. While there is a capture, the module holds the processors' PT against perf: perf's own
 * intel_pt fails with EBUSY, and while that has events here the calls that make captures fail with
 * EBUSY. Everything else of perf works, and its records of maps, forks and context switches
 * (perf_event_open of a dummy event) are the sideband of these traces.
 *
 * Growth. A struct begins with `size`, its size as the program knows it. The kernel takes a
 * shorter one of an older program as if the rest were 0, and a longer one if the rest is 0 (else
 * E2BIG); of a struct that it returns it writes as much as both know. `flags` that it does not know
 * are refused with EINVAL, as are pads and reserved fields that are not 0. Numbers of calls and
 * flags keep their meaning.
 *
 * Failure. ioctl() returns -1 and sets errno. Calls with a problem (`problem`, or the argument
 * itself) also write a struct ptah_ioc_problem that says what is wrong, if it is not NULL.
 *
 *	EFAULT		a pointer
 *	ENOTTY		no call of this kind of descriptor, or a 32-bit program
 *	EINVAL		PTAH_E_INVAL: problem.field, .reason, .valid; or a flag, a pad, a size
 *	E2BIG		a struct has a part that this kernel does not know, and it is not 0
 *	EACCES, EPERM	rights
 *	EBUSY		PTAH_E_BUSY: another tracer, perf included; another capture on this
 *			processor; another consumer; it is mapped; it belongs to a set
 *	ENODEV		PTAH_E_OFFLINE: no such processor, or it is offline. After a
 *			start: it starts when the processor comes online
 *	ESRCH		no such thread
 *	EOPNOTSUPP	PTAH_E_UNSUPPORTED: the processor cannot be traced; CAPS has the
 *			obstacle. Or problem.msr raised #GP
 *	ENOSPC		PTAH_E_NOSPACE: the buffer is full
 *	ENOMEM		PTAH_E_NOMEM, or the module's limit
 *	EUSERS		PTAH_E_LIMIT: too many mappings, or captures of a pool
 *	ENODATA		PTAH_E_LOST: the bytes were overwritten
 *	EIO		PTAH_E_DEVICE, PTAH_E_PORT, PTAH_E_SYSTEM
 *	EINTR, EAGAIN	of calls that wait
 *
 * Threads. Any number of threads may call. Calls on one descriptor that change its state run one
 * after the other; those of a capture's consumer (RECORDS, CONSUME, SYNC, read) too.
 */
#ifndef PTAH_IOCTL_H
#define PTAH_IOCTL_H

#include <ptah/engine/trace_config.h>

#include <linux/ioctl.h>

PTAH_BEGIN_DECLS

#define PTAH_IOC_DEVICE	 "/dev/ptah"
#define PTAH_IOC_VERSION 1u

#define PTAH_IOC_NUMBER(n) _IO(0xe7, n)

/* Says what is wrong with a request. error 0: nothing. Never fails by itself. */
struct ptah_ioc_problem {
	int32_t error; /* enum ptah_error */
	int32_t cpu;   /* the processor that failed; -1: not because of a processor */
	uint32_t msr;  /* that raised #GP; 0: none */
	uint32_t kind; /* enum ptah_trace_problem_kind */
	uint64_t value, valid;
	char field[32];	  /* of struct ptah_trace_config, ptah_capture_config or a struct below */
	char reason[128]; /* a sentence, without its full stop */
};

/*
 * The device
 */

/* Fills in struct ptah_ioc_info, but for `size`. */
#define PTAH_IOC_INFO PTAH_IOC_NUMBER(0x00)

#define PTAH_IOC_HAS_PMI  0x01u /* the performance-monitoring interrupt reaches the module */
#define PTAH_IOC_HAS_PERF 0x02u /* there is perf's intel_pt, and the module can hold it */

struct ptah_ioc_info {
	uint32_t size;
	uint32_t version; /* PTAH_IOC_VERSION of the module */
	uint32_t cpus;	  /* processors there may be: their numbers are 0 to cpus - 1 */
	uint32_t has;	  /* PTAH_IOC_HAS_... */
	uint64_t limit;	  /* bytes that all buffers and tables together may have */
	uint64_t used;	  /* at the moment */
};

/* Fills in the struct ptah_caps (caps.h) at `caps`, of a processor. ENODEV: it has not been online
 * since the module was loaded. */
#define PTAH_IOC_CAPS PTAH_IOC_NUMBER(0x01)

struct ptah_ioc_caps {
	uint32_t size;
	uint32_t cpu;
	uint64_t caps;	/* the address of a struct ptah_caps */
	uint64_t bytes; /* sizeof(struct ptah_caps); the kernel writes how many it has filled in */
};

/* What to trace: struct ptah_trace_config with fields of fixed size. */
#define PTAH_IOC_TRACE_OS		 0x00000001ull
#define PTAH_IOC_TRACE_USER		 0x00000002ull
#define PTAH_IOC_TRACE_BRANCH		 0x00000004ull
#define PTAH_IOC_TRACE_TSC		 0x00000008ull
#define PTAH_IOC_TRACE_MTC		 0x00000010ull
#define PTAH_IOC_TRACE_CYC		 0x00000020ull
#define PTAH_IOC_TRACE_NO_RETCOMP	 0x00000040ull
#define PTAH_IOC_TRACE_PTWRITE		 0x00000080ull
#define PTAH_IOC_TRACE_FUP_ON_PTWRITE	 0x00000100ull
#define PTAH_IOC_TRACE_POWER_EVENTS	 0x00000200ull
#define PTAH_IOC_TRACE_EVENT_TRACE	 0x00000400ull
#define PTAH_IOC_TRACE_NO_TNT		 0x00000800ull
#define PTAH_IOC_TRACE_PSB_PMI_ON_ENABLE 0x00001000ull
#define PTAH_IOC_TRACE_CR3_FILTER	 0x00002000ull /* by `cr3` */
#define PTAH_IOC_TRACE_FORCE_PSB	 0x00004000ull
/*
 * Instead of CR3_FILTER: by the CR3 of the process `cr3_pid`, which the kernel looks up. It stays
 * reserved for this process while the capture exists or until it has another configuration, but an
 * exec gives the process another one, and a child has its own. With page-table isolation the
 * process has two: then OS and USER together are refused with EINVAL.
 */
#define PTAH_IOC_TRACE_CR3_OF_PID 0x00008000ull

struct ptah_ioc_range {
	uint64_t first, last; /* both inclusive */
};

struct ptah_ioc_trace {
	uint32_t size;
	int32_t cr3_pid; /* of a process, as the caller's pid namespace numbers them */
	uint64_t flags;	 /* PTAH_IOC_TRACE_... */
	uint8_t mtc_period, cyc_threshold, psb_period;
	uint8_t modes[PTAH_RANGES]; /* enum ptah_range_mode, of each range */
	uint8_t reserved;
	uint64_t cr3;
	struct ptah_ioc_range ranges[PTAH_RANGES];
};

/*
 * Makes a capture and returns its descriptor. Nothing is traced before PTAH_IOC_START. The numbers
 * that may be 0 in struct ptah_capture_config (engine.h) may be 0 here.
 */
#define PTAH_IOC_CAPTURE PTAH_IOC_NUMBER(0x02)

#define PTAH_IOC_CPU_THREAD (-1) /* the thread `tid` instead of a processor */

#define PTAH_IOC_PAUSED 0x01u /* START arms only, RESUME begins */
#define PTAH_IOC_NO_PMI 0x02u /* do without PMIs */
#define PTAH_IOC_ON_EXEC                                                                           \
	0x04u /* of a thread: it starts by itself when the thread executes a program */

struct ptah_ioc_capture {
	uint32_t size;
	uint32_t flags;	  /* PTAH_IOC_PAUSED and so on */
	uint64_t trace;	  /* the address of a struct ptah_ioc_trace */
	uint64_t problem; /* the address of a struct ptah_ioc_problem, or 0 */
	int32_t cpu;	  /* a processor, or PTAH_IOC_CPU_THREAD */
	int32_t tid;	  /* of the thread; 0: the caller. Not read for a processor */
	uint32_t shape;	  /* enum ptah_capture_shape */
	uint32_t policy;  /* enum ptah_capture_policy */
	uint64_t buffer, region;
	uint32_t pages, pmis, records;
	uint32_t reserved;
};

/*
 * Makes a set of captures and returns its descriptor. The captures have the same configuration
 * (`capture`, whose cpu and tid are not read), and PTAH_IOC_MEMBER gives a descriptor of each.
 */
#define PTAH_IOC_SET PTAH_IOC_NUMBER(0x03)

#define PTAH_IOC_SET_OFFLINE 0x01u /* processors of the mask may be offline: they start later */

struct ptah_ioc_set {
	uint32_t size;
	uint32_t flags;	  /* PTAH_IOC_SET_... */
	uint64_t capture; /* the address of a struct ptah_ioc_capture, whose `problem` is used */
	/*
	 * The address of `words` 64-bit words: bit n % 64 of word n / 64 is processor n. 0: all
	 * that are online, and those that come online later, by themselves.
	 */
	uint64_t mask;
	uint64_t words;
};

/*
 * Makes a pool and returns its descriptor: `captures` captures of threads, with the configuration
 * `capture`, whose cpu and tid are not read.
 */
#define PTAH_IOC_POOL PTAH_IOC_NUMBER(0x04)

/*
 * A thread or process that a captured thread creates gets a capture of the pool, too, in the state
 * of its creator's: started, so that its first instruction is traced, or paused, or (ON_EXEC) not
 * started before its next exec.
 */
#define PTAH_IOC_POOL_INHERIT 0x01u

struct ptah_ioc_pool {
	uint32_t size;
	uint32_t flags;	   /* PTAH_IOC_POOL_... */
	uint64_t capture;  /* the address of a struct ptah_ioc_capture, whose `problem` is used */
	uint32_t captures; /* 1 to 4096 */
	uint32_t reserved;
};

/*
 * A capture. Those marked * return EBUSY for one of a set, which is controlled by the set.
 */

/* * The argument: the address of a struct ptah_ioc_problem, or NULL. */
#define PTAH_IOC_START PTAH_IOC_NUMBER(0x10)
/* * Afterwards all bytes are visible and the position is exact. */
#define PTAH_IOC_STOP PTAH_IOC_NUMBER(0x11)
/* * As stop and start, but the capture keeps its processor. A snapshot of a buffer that wraps:
 * PAUSE, read [oldest, position), RESUME. */
#define PTAH_IOC_PAUSE PTAH_IOC_NUMBER(0x12)
/* * The argument as of START. */
#define PTAH_IOC_RESUME PTAH_IOC_NUMBER(0x13)
/* Makes everything traced so far visible. The argument: where to write the position, a uint64_t, or
 * NULL. */
#define PTAH_IOC_FLUSH PTAH_IOC_NUMBER(0x14)

/* * Other options, filters or ranges from now on. */
#define PTAH_IOC_RECONFIGURE PTAH_IOC_NUMBER(0x15)

struct ptah_ioc_reconfigure {
	uint32_t size;
	uint32_t reserved;
	uint64_t trace;	  /* the address of a struct ptah_ioc_trace */
	uint64_t problem; /* the address of a struct ptah_ioc_problem, or 0 */
};

/* A buffer of another size, while the trace continues. EBUSY while it is mapped; EINVAL for one of
 * a pool. */
#define PTAH_IOC_RESIZE PTAH_IOC_NUMBER(0x16)

struct ptah_ioc_resize {
	uint32_t size;
	uint32_t reserved;
	uint64_t buffer, region;
	uint64_t problem; /* the address of a struct ptah_ioc_problem, or 0 */
};

#define PTAH_IOC_STATUS PTAH_IOC_NUMBER(0x17)

struct ptah_ioc_status {
	uint32_t size;
	uint32_t state; /* enum ptah_capture_state */
	uint32_t shape, policy;
	int32_t cpu;	   /* where it traces now; -1: nowhere */
	int32_t error;	   /* of the last start or look that failed, enum ptah_error */
	uint32_t msr;	   /* that raised #GP; 0: none */
	uint32_t pmi;	   /* 1: it has PMIs */
	int32_t processor; /* it traces this processor, or PTAH_IOC_CPU_THREAD */
	int32_t tid, pid;  /* of the thread that it follows, in the caller's pid namespace; 0 */
	uint32_t ended;	   /* 1: this thread has ended; nothing more will be traced */
	uint64_t position, oldest, tail, lost;
	uint64_t buffer; /* bytes of the buffer's mapping */
	uint64_t page;	 /* bytes of the page's mapping, a multiple of 4096 */
	uint64_t region, cycle;
	uint32_t regions, tables, laps;
	uint32_t records;  /* how many there have been, modulo 2^32: `records_written` */
	uint64_t rtit_ctl; /* IA32_RTIT_CTL and _STATUS at the last look */
	uint64_t rtit_status;
	uint64_t looks, starts, pmis, full, errors, partial, dropped_records;
};

/* Reports how much a capture or a set has written, without disturbing the trace. */
#define PTAH_IOC_LIVE PTAH_IOC_NUMBER(0x18)

struct ptah_ioc_live {
	uint32_t size;
	uint32_t exact;	   /* 1: nothing is traced at the moment */
	uint64_t position; /* at least so much has been written */
	uint64_t limit;	   /* at most so much; UINT64_MAX: not known */
};

/* A consumer that has not mapped the page for writing calls this; EBUSY while somebody has. */

/* Takes at most n records, the oldest first. */
#define PTAH_IOC_RECORDS PTAH_IOC_NUMBER(0x19)

struct ptah_ioc_records {
	uint32_t size;
	uint32_t n;	  /* how many fit, at most 4096; the kernel writes how many there were */
	uint64_t records; /* the address of n struct ptah_capture_record */
};

/* The bytes before `upto` have been read and may be overwritten. */
#define PTAH_IOC_CONSUME PTAH_IOC_NUMBER(0x1a)

struct ptah_ioc_consume {
	uint32_t size;
	uint32_t reserved;
	uint64_t upto;
	uint64_t lost; /* the kernel writes how many of them were overwritten before */
};

/*
 * pread(capture, bytes, n, position) copies bytes of the trace from that position on: less than n
 * where the trace ends, 0 at its end, ENODATA where they are overwritten. With WRAP and a trace
 * that runs, they may be overwritten as they are copied: CONSUME says so, or PAUSE it before.
 */

/*
 * The consumer that has mapped the page for writing calls this when ptah_capture_reader_release()
 * returns true, and when it wants the newest bytes. EINVAL: there is no such mapping.
 */
#define PTAH_IOC_SYNC PTAH_IOC_NUMBER(0x1b)

/*
 * Waits until the number of records is another than `seen`, the page's or status' number as the
 * caller has seen it, or the thread that the capture follows has ended. Returns 0, and the number
 * in `seen`; EAGAIN after the time; EINTR.
 */
#define PTAH_IOC_WAIT PTAH_IOC_NUMBER(0x1c)

struct ptah_ioc_wait {
	uint32_t size;
	uint32_t seen;
	int32_t milliseconds; /* at most; -1: for ever */
	uint32_t ended;	      /* the kernel writes 1: the thread has ended */
};

/*
 * poll() and epoll, for many captures at once: a capture is readable (POLLIN) while the number of
 * its records is another than the one that this call was last given (at first 0); the argument is
 * the number itself, a uint32_t. POLLHUP: the thread that it follows has ended.
 */
#define PTAH_IOC_SEEN PTAH_IOC_NUMBER(0x1d)

/*
 * mmap(), MAP_SHARED, the whole of it: lengths are in struct ptah_ioc_status. The buffer can be
 * mapped for reading alone. Whoever maps the page for writing is the capture's consumer until it is
 * unmapped. At most 8 mappings.
 */
#define PTAH_IOC_MAP_BUFFER 0ull
#define PTAH_IOC_MAP_PAGE   0x10000000000ull

/*
 * A set: START, STOP, PAUSE, RESUME, FLUSH (without an argument), RECONFIGURE, LIVE as of a
 * capture, on all processors together; and
 */

#define PTAH_IOC_SET_STATUS PTAH_IOC_NUMBER(0x20)

/* When TraceEn was changed on the processors, in TSC ticks: struct ptah_captures_moment. */
struct ptah_ioc_moment {
	uint64_t first, last;
	uint32_t cpus;
	uint32_t together;
};

struct ptah_ioc_set_status {
	uint32_t size;
	uint32_t started, paused; /* 0 or 1 */
	uint32_t cpus;		  /* that have a capture */
	uint32_t waiting;	  /* of the mask, and have never been online */
	int32_t error, error_cpu; /* the worst of the captures' errors, and where */
	uint32_t msr;
	uint32_t in_state[16]; /* captures in each enum ptah_capture_state */
	struct ptah_ioc_moment began, ended;
	uint64_t position, readable, lost, buffer; /* sums */
	uint64_t looks, starts, pmis, full, errors, partial, dropped_records;
};

/*
 * Returns a descriptor of the capture of one processor: its mappings, records, status, waiting are
 * those of any capture. The argument is the number of the processor itself, a uint32_t. ENODEV:
 * the set has no capture of it, or not yet.
 */
#define PTAH_IOC_MEMBER PTAH_IOC_NUMBER(0x21)

/*
 * A pool
 */

/* Takes a capture for a thread that exists, and returns its descriptor. ENOMEM: all are in use.
 * EBUSY: the pool has one of this thread already. */
#define PTAH_IOC_TAKE PTAH_IOC_NUMBER(0x30)

struct ptah_ioc_take {
	uint32_t size;
	int32_t tid;	  /* 0: the caller */
	uint64_t problem; /* the address of a struct ptah_ioc_problem, or 0 */
};

/*
 * Returns a descriptor of the capture of the next thread that has inherited one, and says which.
 * EAGAIN: there is none; the pool is readable (poll) when there is. A capture that nobody asks for
 * traces nevertheless. Its descriptor when it is closed returns it to the pool, with a cleared
 * buffer.
 */
#define PTAH_IOC_NEXT PTAH_IOC_NUMBER(0x31)

struct ptah_ioc_next {
	uint32_t size;
	int32_t tid, pid;   /* of the thread, in the caller's pid namespace */
	int32_t parent_tid; /* of its creator */
	uint64_t time;	    /* the TSC when it was created */
	uint64_t missed;    /* threads that got no capture so far, because none was left */
};

static inline uint64_t ptah_ioc_trace_flags(const struct ptah_trace_config *config)
{
	return (config->os ? PTAH_IOC_TRACE_OS : 0) | (config->user ? PTAH_IOC_TRACE_USER : 0) |
	       (config->branch ? PTAH_IOC_TRACE_BRANCH : 0) |
	       (config->tsc ? PTAH_IOC_TRACE_TSC : 0) | (config->mtc ? PTAH_IOC_TRACE_MTC : 0) |
	       (config->cyc ? PTAH_IOC_TRACE_CYC : 0) |
	       (config->no_retcomp ? PTAH_IOC_TRACE_NO_RETCOMP : 0) |
	       (config->ptwrite ? PTAH_IOC_TRACE_PTWRITE : 0) |
	       (config->fup_on_ptwrite ? PTAH_IOC_TRACE_FUP_ON_PTWRITE : 0) |
	       (config->power_events ? PTAH_IOC_TRACE_POWER_EVENTS : 0) |
	       (config->event_trace ? PTAH_IOC_TRACE_EVENT_TRACE : 0) |
	       (config->no_tnt ? PTAH_IOC_TRACE_NO_TNT : 0) |
	       (config->psb_pmi_on_enable ? PTAH_IOC_TRACE_PSB_PMI_ON_ENABLE : 0) |
	       (config->cr3_filter ? PTAH_IOC_TRACE_CR3_FILTER : 0) |
	       (config->force_psb ? PTAH_IOC_TRACE_FORCE_PSB : 0);
}

/* The same as a struct ptah_ioc_trace. */
static inline void ptah_ioc_trace_set(struct ptah_ioc_trace *trace,
				      const struct ptah_trace_config *config)
{
	unsigned n;

	trace->size = (uint32_t)sizeof(*trace);
	trace->cr3_pid = 0;
	trace->flags = ptah_ioc_trace_flags(config);
	trace->mtc_period = config->mtc_period;
	trace->cyc_threshold = config->cyc_threshold;
	trace->psb_period = config->psb_period;
	trace->reserved = 0;
	trace->cr3 = config->cr3;
	for (n = 0; n < PTAH_RANGES; n++) {
		trace->modes[n] = config->ranges[n].mode;
		trace->ranges[n].first = config->ranges[n].first;
		trace->ranges[n].last = config->ranges[n].last;
	}
}

PTAH_END_DECLS

#endif
