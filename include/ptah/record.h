/* SPDX-License-Identifier: MIT */
/*
 * Recording: what runs becomes Intel PT packets, in a perf.data file or passed to
 * the caller.
 *
 * There are six recorders behind one interface:
 *
 *	hardware   the processor's own PT, through Linux' intel_pt driver (perf_event)
 *	module     the processor's own PT, through Ptah's kernel module (/dev/ptah)
 *	qemu       a command under QEMU's user mode emulation, whose plugin feeds a
 *	           simulated PT processor: no hardware and no privileges
 *	native     a command, by code that is put into it and writes packets while it
 *	           runs: no hardware and no emulator; only if it is asked for, because
 *	           it is new
 *	ptrace     single steps of a command or of a running process, for the same
 *	           simulated processor: no hardware, no emulator, slow
 *	vm         a virtual machine (argv is QEMU's command line), whose processors are
 *	           simulated from the first instruction on; the guest does not notice
 *
 * A recorder goes through these calls, all from one thread:
 *
 *	ptah_recorder_new(&config, &r, &problem, &why);
 *	ptah_recorder_start(r);
 *	while (ptah_recorder_poll(r, 100) > 0)
 *		;                  (pause, resume, snapshot and stop at will)
 *	ptah_recorder_finish(r);   (the file is complete)
 *	ptah_recorder_free(r);     (without finish: nothing is left of it)
 *
 * ptah_record() does them all. The calls return 0 or a negative enum ptah_error.
 * ptah_recorder_why() has a sentence for people, and a reason
 * for programs.
 */
#ifndef PTAH_RECORD_H
#define PTAH_RECORD_H

#include <ptah/base.h>
#include <ptah/engine/caps.h>
#include <ptah/engine/trace_config.h>
#include <ptah/session.h>

#include <stddef.h>

PTAH_BEGIN_DECLS

enum ptah_recorder_kind {
	/*
	 * The first of these that can do what is asked; for what already runs, never single steps,
	 * which would slow it down thousands of times.
	 */
	PTAH_RECORDER_BEST = 0,
	PTAH_RECORDER_HARDWARE,
	PTAH_RECORDER_QEMU,
	PTAH_RECORDER_PTRACE,
	PTAH_RECORDER_VM, /* a virtual machine, from outside; only if it is asked for */
	PTAH_RECORDER_MODULE,
	PTAH_RECORDER_NATIVE, /* only if it is asked for */
	PTAH_RECORDER_MAX
};

enum ptah_record_target {
	PTAH_RECORD_COMMAND = 0, /* argv, its threads and children */
	PTAH_RECORD_PROCESSES,	 /* those of `ids` with all their threads */
	PTAH_RECORD_THREADS,	 /* those of `ids` alone */
	PTAH_RECORD_SELF,	 /* the thread that calls ptah_recorder_new() */
	PTAH_RECORD_CPUS,	 /* whatever runs on the processors `ids`; none: on all */
	PTAH_RECORD_TARGET_MAX
};

/* What prevents a recording, or went wrong. ptah_record_advice() says what to do about it. */
enum ptah_record_problem {
	PTAH_RECORD_FINE = 0,
	PTAH_RECORD_NO_PROCESSOR, /* this processor has no Intel PT */
	PTAH_RECORD_NO_DRIVER,	  /* the kernel offers no intel_pt */
	PTAH_RECORD_PERMISSION,	  /* perf_event_paranoid, ptrace_scope, another user's process */
	PTAH_RECORD_MLOCK,	  /* buffers of that size may not be locked in memory */
	PTAH_RECORD_BUSY,	  /* in use by another: a tracer, VMX, a debugger */
	PTAH_RECORD_NO_TARGET,	  /* no such command, process, thread or processor */
	PTAH_RECORD_NOT_POSSIBLE, /* not by this recorder */
	PTAH_RECORD_BAD_OPTION, /* a value that makes no sense, or that this processor does not have
				 */
	PTAH_RECORD_NO_EMULATOR, /* qemu-x86_64 or its plugin is missing, or does not work */
	PTAH_RECORD_NO_MEMORY,	 /* memory, descriptors, processes */
	PTAH_RECORD_OUTPUT,	 /* the file could not be written, or the sink refused */
	PTAH_RECORD_BROKEN,	 /* the recorder was disturbed: see the sentence */
	PTAH_RECORD_TOO_SLOW,	 /* single steps alone can do it, and they were not asked for */
	PTAH_RECORD_PROBLEM_MAX
};

/* struct ptah_record_config, backend.time_resolution: it never looks. */
#define PTAH_RECORD_NO_WATCHER UINT64_MAX

enum ptah_record_clock {
	PTAH_CLOCK_CHOOSE = 0, /* the recorder's own: see docs/recording.md */
	PTAH_CLOCK_INSN,       /* TSC counts retired instructions: repeatable */
	PTAH_CLOCK_HOST,       /* TSC is the machine's time */
};

/* What happens when the buffer is full. */
enum ptah_record_buffer {
	PTAH_RECORD_DRAIN = 0, /* simulated: the program waits, nothing is lost; hardware: the
				  recorder reads as fast as it can and counts what is lost */
	PTAH_RECORD_SNAPSHOT,  /* the oldest trace is overwritten: the end is kept, or what each
				  snapshot finds */
	PTAH_RECORD_STOP_WHEN_FULL, /* tracing stops: the beginning is kept */
	PTAH_RECORD_BUFFER_MAX
};

/* An address range, by file where the addresses are not known before the program runs. */
struct ptah_record_filter {
	enum ptah_range_mode mode; /* FILTER or STOP */
	const char *path; /* a file that the program maps, as in /proc/PID/maps; NULL: none */
	uint64_t start;	  /* offset in the file; without one, an address */
	uint64_t size;	  /* UINT64_MAX: to the end */
};

/* An event that switches the trace of its thread on or off, in the kernel, where it happens. */
enum ptah_record_trigger_kind {
	PTAH_TRIGGER_TRACEPOINT = 1, /* of the kernel */
	PTAH_TRIGGER_ADDRESS,	     /* an instruction is about to run (a hardware breakpoint) */
	PTAH_TRIGGER_ENTRY,	     /* a function is called (a uprobe) */
	PTAH_TRIGGER_RETURN,	     /* a function returns */
	PTAH_TRIGGER_MAX
};

#define PTAH_RECORD_TRIGGERS 16
#define PTAH_RECORD_EVENTS   64

struct ptah_record_trigger {
	enum ptah_record_trigger_kind kind;
	bool resume;	  /* false: it pauses the trace */
	const char *name; /* TRACEPOINT: "GROUP:NAME"; ENTRY, RETURN: the function's file */
	uint64_t address; /* ADDRESS; ENTRY, RETURN: the offset in the file where it begins */
};

/* What a sink receives, piece by piece. A sink ignores kinds that it does not know. */
enum ptah_record_piece_kind {
	PTAH_RECORD_PIECE_TRACE = 1, /* the next packets of `stream` */
	/* a record as in a perf.data file: maps, names, losses, system calls. HEADER_TRACING_DATA
	 * comes with what it describes, which its size does not count */
	PTAH_RECORD_PIECE_RECORD,
	/*
	 * With output.kcore: the next bytes of a file that belongs beside the recording. All of
	 * them come from ptah_recorder_start(), before any trace, and each file is complete before
	 * the next begins. A recording whose packets and records are in FOLDER/data has them as
	 * FOLDER/NAME.
	 */
	PTAH_RECORD_PIECE_FILE,
};

struct ptah_record_piece {
	uint8_t kind;	 /* enum ptah_record_piece_kind */
	uint32_t stream; /* TRACE: its stream, one for each thread or processor */
	int32_t tid;	 /* TRACE: the thread; -1: a processor's stream */
	int32_t cpu;	 /* TRACE: the processor; -1: a thread's stream */
	/* TRACE: offset in the stream; a gap between pieces was lost. FILE: offset in the file; 0
	 * begins the next file */
	uint64_t offset;
	const void *bytes;
	size_t size;	  /* FILE: 0 for a file that is empty */
	const char *name; /* FILE: "kcore_dir/kcore", "kcore_dir/kallsyms", "kcore_dir/modules";
			     otherwise NULL */
};

struct ptah_record_sink {
	/* Called by the thread that polls; the bytes are valid until it returns. A negative result
	 * is an error, with which the recording ends. NULL: everything is dropped, for callers that
	 * only ask whether a recording is possible. */
	int (*take)(void *context, const struct ptah_record_piece *piece);
	void *context;
	/*
	 * Everything that was taken is void: the recorder native could not record the program, and
	 * another one begins again from its start. A negative result ends the recording. NULL: such
	 * a program runs on untraced, from where it could not be followed, and a note says why.
	 */
	int (*restart)(void *context);
	/*
	 * A process has ended, with a status as of waitpid(). The recorders native, qemu and ptrace
	 * tell it of every process, when all its trace has come; the others of the command alone,
	 * whose last trace comes in this round or the next one. It may be told late: native may
	 * know of a child that a signal ended from who waits for it alone, and not at all if nobody
	 * does. A negative result ends the recording. NULL: nobody asks.
	 */
	int (*ended)(void *context, int32_t pid, int wait_status);
};

/* In psb_period and mtc_period of ptah_record_config.trace: the recorder chooses. */
#define PTAH_RECORD_CHOOSE 255

/*
 * What to record, and how. All 0 but `size` and target.argv records a command in
 * the best way there is. What a pointer leads to must stay until the recorder is
 * freed.
 */
struct ptah_record_config {
	size_t size; /* sizeof(struct ptah_record_config) */

	/* Who is recorded. */
	struct {
		enum ptah_record_target kind;
		/* The command, NULL-terminated; argv[0] is looked up in PATH. With another
		 * target it is only started, and the recording ends when it does. */
		char *const *argv;
		const int32_t *ids; /* processes, threads or processors, as `kind` says */
		size_t id_count;
		bool no_inherit; /* leave out children, and threads that begin later */
		bool per_thread; /* hardware: a buffer for each thread, not processor */
		bool
		    start_paused; /* trace nothing before a call of ptah_recorder_pause() that ends the pause */
		/* hardware: no records of the names and mappings that existed before, nor of the
		 * kernel's, for who knows them and records often. Reading them takes milliseconds
		 */
		bool no_existing;
	} target;

	/*
	 * What is traced; its size 0: what ptah_record_trace_default() gives. Simulated
	 * processors have user, branch, tsc, mtc, cyc and no_retcomp alone. Neither
	 * user nor os means user. cr3_filter, ranges, force_psb and psb_pmi_on_enable
	 * are refused: address ranges are given as filters, below.
	 */
	struct ptah_trace_config trace;

	const struct ptah_record_filter *filters;
	size_t filter_count; /* at most PTAH_RANGES */

	/* Memory for the trace and for the records about it. */
	struct {
		enum ptah_record_buffer policy;
		/* Bytes of trace buffer for each thread or processor; 0: 4 MiB. Simulated: up to
		 * 64 MiB, in whole 64 KiB. Native: 32 KiB to 4 MiB, or what is kept. Hardware: a
		 * power of two of pages. */
		uint64_t size;
		uint64_t sideband; /* hardware: bytes of each ring of records; 0: 512 KiB */
	} buffer;

	/* Where the recording goes. */
	struct {
		const char *path;		     /* a file; NULL: "perf.data" */
		const struct ptah_record_sink *sink; /* instead of a file; `path` is not used */
		/* hardware: add a copy of the kernel's code, as perf --kcore: the file is then a
		 * folder, and a sink gets it as PTAH_RECORD_PIECE_FILE */
		bool kcore;
		/*
		 * The recording ends when the file has this many bytes, and ptah_recorder_poll()
		 * returns 0; 0: no limit. What the buffers hold then is written too.
		 */
		uint64_t max_size;
		/*
		 * Leave out the copies of maps for perf and of jitdumps, which otherwise are in the
		 * folder PATH.jit when the recording is finished. A sink gets none.
		 */
		bool no_jit_copies;
	} output;

	/* Which recorder does it, and what belongs to one of them alone. */
	struct {
		enum ptah_recorder_kind kind;
		const char *qemu;	      /* NULL: qemu-x86_64 in PATH */
		const char *plugin;	      /* NULL: beside the library */
		enum ptah_record_clock clock; /* of simulated processors */
		bool long_tnt;		      /* simulated: TNT-64 packets */
		/* simulated: counts silent loops (model.h, ptah_model_choices) */
		bool mark_loops;
		uint64_t pmu_config; /* hardware: further bits of perf_event_attr.config */
		/* native: what runs is counted in a second way, too, for ptah_session_verify();
		 * slower. The others with a simulated processor always do it */
		bool truth;
		/*
		 * native, qemu, ptrace: leave out the system calls, which otherwise are samples of
		 * the events raw_syscalls:sys_enter, raw_syscalls:sys_exit and ptah:sys_data:
		 * docs/perf-data.md
		 */
		bool no_syscalls;
		/*
		 * native: how often the recorder looks how far the threads are and writes the time
		 * into the trace, in nanoseconds; 0: 100 us. Less often where it would take more
		 * than a tenth of a processor, and where threads wait.
		 */
		uint64_t time_resolution;
	} backend;

	/* What the recorder vm alone uses. */
	struct {
		/* The symbols of the guest's Linux kernel, vmlinux or a file in the format of
		 * /proc/kallsyms: they tell where the kernel lies, and which process an address
		 * space is. NULL: none */
		const char *symbols;
		uint64_t cr3;	   /* trace this address space alone; 0: all */
		uint64_t start_at; /* tracing begins when this instruction runs; 0: at once */
		uint64_t stop_at;  /* and ends when this one does; 0: never */
	} guest;

	/* What the recorder hardware alone uses, on Linux 6.13 and later. */
	struct {
		const struct ptah_record_trigger *items;
		size_t count;	   /* at most PTAH_RECORD_TRIGGERS */
		bool start_paused; /* nothing is traced until a trigger resumes the trace */
	} triggers;

	/*
	 * Other events that are recorded beside the trace, one in each text, as perf record's -e has
	 * them: "sched:sched_switch" and other tracepoints, "page-faults" and other events of the
	 * kernel, "cycles" and other counters, each with the modifiers :u and :k. Their samples are in
	 * the recording. For Intel PT hardware.
	 */
	struct {
		const char *const *items;
		size_t count; /* at most PTAH_RECORD_EVENTS */
	} events;
};

/*
 * Fills in what a recorder traces by default, for callers that want to
 * change one thing: user code, branches, TSC; PSBs and MTCs as the recorder
 * chooses (PTAH_RECORD_CHOOSE). The recorder for hardware then takes an MTC
 * every 8 crystal ticks, or as near to it as the processor allows, and the
 * others none, because they write TSC packets wherever the order of what happened needs them.
 */
PTAH_API void ptah_record_trace_default(struct ptah_trace_config *trace);

/* What was lost. The recording has each loss too, where it happened. */
struct ptah_record_losses {
	uint64_t truncated; /* times the trace buffer was full, and the trace that came then is
			       missing */
	/*
	 * Bytes of trace that were overwritten before they were read. In snapshots at least so
	 * many: Linux does not report how often a buffer was overwritten.
	 */
	uint64_t overwritten;
	uint64_t partial;      /* gaps because of a VMX guest, or its entry and exit */
	uint64_t collisions;   /* times samples disturbed the trace */
	uint64_t lost_records; /* records of maps, names and switches (PERF_RECORD_LOST) */
	uint64_t overflows;    /* overflows (OVF) of a simulated processor */
	uint64_t unwritten;    /* bytes of trace that were recorded and could not be written */
};

/* The state of a recording, or its result. */
struct ptah_record_status {
	size_t size;	 /* sizeof(struct ptah_record_status) */
	int wait_status; /* of the command, as waitpid() gives it; -1: it runs, or there is none */
	int32_t pid;	 /* of the command that was started; 0: none, or it has ended */
	bool running;	 /* something is traced, or may be traced later */
	bool paused;
	bool full; /* config.output.max_size ended the recording */
	uint64_t trace_bytes;
	uint64_t sideband_bytes; /* of records around it */
	/* Executed so far, as far as known; 0 where the recorder does not count them. */
	uint64_t instructions;
	/* Threads that were traced, as far as known: those that existed and those that began. With
	 * PTAH_RECORD_CPUS: processors that have trace. */
	uint32_t threads;
	uint32_t processes;
	uint32_t snapshots;
	uint32_t notes; /* remarks stored in the file (programs that cannot be followed, ...) */
	/*
	 * Processes that a signal ended which programs are not ended by as a matter of course
	 * (SIGSEGV, SIGABRT, SIGKILL and others, not SIGTERM), as far as known
	 */
	uint32_t crashes;
	uint32_t jit_copies; /* lists of generated code that were copied beside the file */
	struct ptah_record_losses losses;
};

/* What a decoder needs besides packets; 0 where there is none. The file has it too. */
struct ptah_record_metadata {
	size_t size;	 /* sizeof(struct ptah_record_metadata) */
	char vendor[13]; /* "GenuineIntel" */
	struct ptah_cpu cpu;
	uint16_t time_shift; /* nanoseconds = time_zero + (TSC * time_mult >> time_shift) */
	uint32_t time_mult;
	uint64_t time_zero;
	uint32_t cpuid_14[2][4]; /* leaf 14H, sub-leaves 0 and 1: EAX, EBX, ECX, EDX */
	uint32_t cpuid_15[4];
	uint64_t rtit_ctl;     /* IA32_RTIT_CTL as it is set, as far as known */
	uint32_t pmu_type;     /* hardware: perf_event_attr.type */
	uint8_t nominal_ratio; /* MSR_PLATFORM_INFO[15:8]; 0: not known */
};

struct ptah_recorder;

/*
 * Checks everything that can be checked before anything runs, picks the
 * recorder, and opens the output (an existing file becomes FILE.old). On
 * failure *problem and *why say what is in the way; both may be NULL.
 */
PTAH_API int ptah_recorder_new(const struct ptah_record_config *config, struct ptah_recorder **r,
			       enum ptah_record_problem *problem, struct ptah_message *why);

/* Starts the command, or begins to trace what runs. */
PTAH_API int ptah_recorder_start(struct ptah_recorder *r);

/*
 * Reads what there is, and waits up to timeout_ms for more. 1: the recording
 * continues; 0: what was traced has ended. Call it often: the buffers are finite.
 */
PTAH_API int ptah_recorder_poll(struct ptah_recorder *r, int timeout_ms);

/*
 * While a recorder is paused nothing is traced; what has been traced is kept. With PTAH_RECORD_DRAIN
 * one ptah_recorder_poll() after the beginning of a pause delivers all of it. on: whether it is
 * paused from now on; it may be already.
 */
PTAH_API int ptah_recorder_pause(struct ptah_recorder *r, bool on);

/*
 * The user is in a hurry: half a second from now on, no call waits for a program any more. What
 * does not stop, answer or end by then is given up, and the call returns. May be called in a signal
 * handler and by any thread, as long as the recorder exists; NULL does nothing.
 */
PTAH_API void ptah_recorder_hurry(struct ptah_recorder *r);

/* With PTAH_RECORD_SNAPSHOT: reads what the buffers hold now. Else PTAH_E_INVAL. */
PTAH_API int ptah_recorder_snapshot(struct ptah_recorder *r);

/*
 * Ends the recording and reads the rest of the buffers. Programs that still run
 * continue untraced; if the command does (status.pid), the caller must wait for
 * it, and meanwhile call ptah_recorder_poll(), which lets go of a thread that
 * could not be stopped for that before. May be repeated.
 */
PTAH_API int ptah_recorder_stop(struct ptah_recorder *r);

/*
 * Stops, and completes the file. Afterwards only poll, status, why and free may be called. When the
 * recording has failed, or the file cannot be completed (the disk is full), this returns the first
 * failure, and the file has what could be written before, with a note that says why it ends there:
 * status.trace_bytes of trace are in it. With 0 of them no file is left.
 */
PTAH_API int ptah_recorder_finish(struct ptah_recorder *r);

/* NULL does nothing. A file that was not finished is removed, and FILE.old put back. */
PTAH_API void ptah_recorder_free(struct ptah_recorder *r);

/*
 * Which recorder was chosen, and in *choice, unless `choice` is NULL, why in one line:
 * "qemu: this processor has no Intel PT".
 */
PTAH_API enum ptah_recorder_kind ptah_recorder_kind(const struct ptah_recorder *r,
						    const char **choice);

PTAH_API int ptah_recorder_status(const struct ptah_recorder *r, struct ptah_record_status *status);
/* Complete once the recorder has been started. */
PTAH_API int ptah_recorder_metadata(const struct ptah_recorder *r,
				    struct ptah_record_metadata *metadata);

/* The sentence of the first failure, "" without one; and in *problem, unless NULL, the reason. */
PTAH_API const char *ptah_recorder_why(const struct ptah_recorder *r,
				       enum ptah_record_problem *problem);

/* "hardware", "native", "qemu" and so on, as --recorder has them. Never NULL. */
PTAH_API const char *ptah_recorder_name(unsigned kind);

/*
 * What to do about a problem, a sentence or two; and in *name, unless NULL, the enumerator's last part
 * ("NO_DRIVER"). Neither is ever NULL.
 */
PTAH_API const char *ptah_record_advice(unsigned problem, const char **name);

/*
 * All calls in one: records to the end, as the configuration says. 0 when the
 * recording is complete, whatever the command's exit status. On failure the file
 * has what was recorded before, as after ptah_recorder_finish(). result and why may be NULL.
 * Signals are left to the caller: for one that is meant for the command alone (Ctrl-C), install a
 * handler, which the command does not inherit.
 */
PTAH_API int ptah_record(const struct ptah_record_config *config, struct ptah_record_status *result,
			 struct ptah_message *why);

/*
 * "intel_pt/TERM=VALUE,.../MODIFIERS", as perf record's -e has it, into *config.
 * The terms are those of perf-intel-pt(1), and set config->trace; other terms
 * that the driver of this machine has set bits of backend.pmu_config. Modifiers:
 * u, k.
 */
PTAH_API int ptah_record_parse_event(const char *text, struct ptah_record_config *config,
				     struct ptah_message *why);

/*
 * The file that is executed when `argv` is run as a command: argv[0] is looked up
 * in PATH, and "#!" lines are followed. The path is the one that /proc/PID/maps
 * would show. PTAH_E_MISSING or another error when there is no such program;
 * PTAH_E_NOSPACE.
 */
PTAH_API int ptah_record_program(char *const *argv, char *path, size_t size);

/*
 * Hosts: can this machine record with its own Intel PT, through Linux' intel_pt driver?
 * If not, why not, and what can be done?
 *
 *	struct ptah_host host = {.size = sizeof(host)};
 *
 *	if (ptah_host_look(NULL, NULL, &host) < 0)
 *		puts(ptah_host_advice(&host, NULL));
 *
 * Reads CPUID and a few files of /proc and /sys, and changes nothing. Any
 * thread.
 */

enum ptah_host_obstacle {
	PTAH_HOST_NONE = 0,
	PTAH_HOST_PROCESSOR,  /* caps.obstacle says more */
	PTAH_HOST_DRIVER,     /* the kernel offers no intel_pt */
	PTAH_HOST_PERMISSION, /* not for this user: perf_event_paranoid, CAP_PERFMON */
	PTAH_HOST_OBSTACLE_MAX
};

struct ptah_host {
	size_t size; /* sizeof(struct ptah_host) */
	/* The processor. Its MSRs cannot be read here; what sysfs has of them is filled in. */
	struct ptah_caps caps;
	unsigned cpus;	   /* processors that were looked at: those this thread may run on */
	unsigned differs;  /* how many of them differ from what `caps` says */
	uint8_t obstacle;  /* enum ptah_host_obstacle, the first that was found */
	bool driver;	   /* /sys/bus/event_source/devices/intel_pt is there */
	uint32_t pmu_type; /* what perf_event_attr.type must be; 0: not known */
	int paranoid;	   /* kernel.perf_event_paranoid; INT32_MIN: could not be read */
	bool privileged;   /* CAP_PERFMON or CAP_SYS_ADMIN: perf_event_paranoid does not apply */
	/* What this user may trace, if there are processor and driver. */
	bool may_user;	 /* user code of their own processes */
	bool may_kernel; /* the kernel's part of them */
	bool may_cpu;	 /* everything that runs on a processor, other users' processes too */
};

/*
 * caps: pretend that the processor has these capabilities; NULL: ask this
 * machine's processors, for which the calling thread moves to each one that it
 * may run on, and back. root: a prefix for /proc and /sys; NULL: none. PTAH_OK;
 * PTAH_E_UNSUPPORTED when there is an obstacle; PTAH_E_INVAL.
 */
PTAH_API int ptah_host_look(const struct ptah_caps *caps, const char *root, struct ptah_host *host);

/*
 * A sentence or two on the obstacle and what to do about it; and in *obstacle, unless NULL, the
 * enumerator's last part ("DRIVER"). Neither is ever NULL.
 */
PTAH_API const char *ptah_host_advice(const struct ptah_host *host, const char **obstacle);

/*
 * Virtual machines: computers whose processors have Intel PT, on any x86-64 computer.
 *
 * QEMU translates the guest's code (TCG), and the plugin ptah-system.so sees each
 * instruction and feeds a simulated PT processor (model.h) for each virtual one. The
 * guest finds Intel PT in CPUID and its registers, and its own driver uses it.
 *
 * ptah_vm_command() makes the command line of such a machine:
 *
 *	struct ptah_vm_config config = {.size = sizeof(config), .options = options};
 *
 *	if (ptah_vm_command(&config, &argv, &why) >= 0)
 *		execv(argv[0], argv);
 *
 * docs/virtual-pt.md shows what can be done with it.
 */

struct ptah_message;

/* All 0 but `size`: a machine without a disk, with the processor "skylake". */
struct ptah_vm_config {
	size_t size;	    /* sizeof(struct ptah_vm_config) */
	const char *qemu;   /* a path, or a name in PATH; NULL: qemu-system-x86_64 */
	const char *plugin; /* NULL: beside the library */
	const char *model;  /* of ptah_model_named(); NULL: "skylake" */
	/*
	 * A file to which the plugin appends what ran, when the guest asks for it and at the end.
	 * NULL: none.
	 */
	const char *truth;
	/*
	 * Further arguments of the plugin (docs/virtual-pt.md), with commas between them, such as
	 * "xsaves=on,tsc=host". NULL: none.
	 */
	const char *arguments;
	char *const *options; /* for QEMU; the last one NULL. NULL: none */
};

/*
 * The command line, to be executed as it is: QEMU's path, what Ptah adds, and the options of the
 * caller, which come last. Ptah adds the plugin; the accelerator TCG and a processor (-cpu) of the
 * model's vendor, family and model, where the options choose none.
 *
 * The caller frees it by one free(). PTAH_E_INVAL: there is no such model, or the options choose
 * another accelerator than TCG. PTAH_E_MISSING: there is no such QEMU or plugin.
 * PTAH_E_UNSUPPORTED: this QEMU lacks what the plugin needs. PTAH_E_NOMEM. *why is the reason, for
 * people.
 */
PTAH_API int ptah_vm_command(const struct ptah_vm_config *config, char ***command,
			     struct ptah_message *why);

PTAH_END_DECLS

#endif
