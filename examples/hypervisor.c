/* SPDX-License-Identifier: MIT */
/*
 * A hypervisor that traces its guest and not itself, into hypervisor.data. The VMCS sets and clears
 * IA32_RTIT_CTL (its controls "load" and "clear IA32_RTIT_CTL", which need
 * IA32_VMX_MISC[14]); the engine switches all other registers of PT.
 */
#include "board.h"
#include "companion.h"

#include <ptah/event.h>

#include <inttypes.h>

#define HOST  UINT64_C(0xffff800000001000)
#define GUEST UINT64_C(0x401000)

static const uint8_t guest_code[] = {
    0xb9, 5,	0,    0, 0, /* 401000: mov ecx, 5 */
    0xff, 0xc9,		    /* 401005: dec ecx */
    0x75, 0xfc,		    /* 401007: jnz 401005 */
    0x0f, 0x01, 0xc1,	    /* 401009: vmcall */
};

static void loop(struct ptah_model *m, uint64_t ip, int times)
{
	struct ptah_model_branch jnz = {ip + 2, ip + 4, ip, PTAH_INSN_COND, true};

	for (; times; jnz.taken = --times > 1)
		ptah_model_branch(m, &jnz);
}

/* Enters the guest, which runs until its vmcall. Interrupts are off. */
static void run_guest(struct ptah_model *m, struct ptah_capture *capture)
{
	struct ptah_model_vmcs vmcs = {.load_rtit_ctl = true, .clear_rtit_ctl = true};
	struct ptah_model_transfer enter = {.ip = HOST, .to = GUEST, .after.mode = PTAH_EXEC_64};
	struct ptah_model_transfer leave = {.ip = GUEST + 9, .to = HOST, .after = enter.after};

	ptah_model_vm_target(m, &enter);
	if (ptah_capture_vmentry(capture, &vmcs.guest_rtit_ctl) < 0 ||
	    ptah_model_vm_entry(m, &vmcs) < 0)
		exit(1);
	loop(m, GUEST + 5, 5);
	ptah_model_vm_target(m, &leave);
	ptah_model_vm_exit(m, &vmcs);
	ptah_capture_vmexit(capture);
}

/* The guest is a process of the recording, and its virtual processor a thread. */
static void write_recording(struct ptah_capture *capture, const struct ptah_caps *caps,
			    const struct ptah_trace_config *trace)
{
	struct ptah_recording *r =
	    companion_open("hypervisor.data", PTAH_RECORDING_THREADS, caps, trace);

	companion_add_process(r, 1, "guest", GUEST, guest_code, sizeof(guest_code));
	companion_drain(r, companion_add_stream(r, 0, 1), capture);
	printf("%" PRIu64 " bytes of trace in hypervisor.data\n", ptah_recording_bytes(r));
	companion_close(r);
}

int main(void)
{
	struct ptah_trace_config trace;
	struct ptah_capture_config config = {
	    .size = sizeof(config), .trace = &trace, .cpu = PTAH_CAPTURE_THREAD};
	struct ptah_capture *capture;
	struct ptah_engine *engine;
	struct ptah_model *m;
	struct board board;

	if (board_open(&board, "sapphire-rapids", 1) < 0 ||
	    ptah_engine_new(&board.hal, board.machine, &engine) < 0)
		return 1;
	m = ptah_machine_model(board.machine, 0);
	ptah_model_vmxon(m);
	ptah_trace_config_default(ptah_engine_caps(engine, 0), &trace);
	if (ptah_capture_new(engine, &config, &capture, NULL) < 0 ||
	    ptah_capture_start(capture) < 0)
		return 1;
	for (int i = 0; i < 100; i++) {
		uint64_t irqs = board.hal.irq_save(board.machine);

		run_guest(m, capture);
		board.hal.irq_restore(board.machine, irqs);
		loop(m, HOST, 1000);
	}
	ptah_capture_stop(capture);
	write_recording(capture, ptah_engine_caps(engine, 0), &trace);
	return ptah_capture_free(capture) < 0 || ptah_engine_free(engine) < 0 ||
	       !board_close(&board);
}
