/* SPDX-License-Identifier: MIT */
/*
 * Test group T9: events outside of the engine that stop a trace, with or
 * without notice to the engine: VMX operation, virtual machines, SMIs, resets,
 * measured launch, sleep. Execution that was not traced is reported as PARTIAL,
 * and the position is the number of bytes that the processor has output.
 *
 * SDM volume 3, "Intel PT and VMX", "Intel PT and System Management Mode",
 * "RESET".
 */
#include "engine/rig.h"

/* The most bytes that a processor writes by itself when it starts and stops. */
#define SLICE 128u

#define LVT_MSR 0x834u

/* For ports with XSAVES. hal.h: "enabled in IA32_XSS, on every processor, by the port". */
static void set_xss(struct rig *rig, unsigned cpu)
{
	ptah_model_wrmsr(ptah_machine_model(rig->machine, cpu), PTAH_IA32_XSS, PTAH_XSTATE_PT);
}

struct kind {
	const char *processor;
	bool thread, no_xsaves;
	uint8_t shape;
};

static const struct kind kinds[] = {
    {"broadwell", false, false, PTAH_SHAPE_AUTO}, {"broadwell", true, false, PTAH_SHAPE_AUTO},
    {"skylake", false, false, PTAH_SHAPE_RING},	  {"skylake", true, false, PTAH_SHAPE_RING},
    {"skylake", true, true, PTAH_SHAPE_RING},	  {"skylake", false, false, PTAH_SHAPE_OVERFLOW},
    {"skylake", false, false, PTAH_SHAPE_SINGLE}, {"skylake", true, false, PTAH_SHAPE_SINGLE},
    {"minimal", false, false, PTAH_SHAPE_AUTO},	  {"minimal-range", false, false, PTAH_SHAPE_AUTO},
};

struct scene {
	struct rig rig;
	struct ptah_model_processor processor;
	struct ptah_model *m;
	struct ptah_capture *c;
	struct ptah_trace_config trace;
	const struct kind *kind;
};

/* A capture on processor 0, started and switched in; with `no_vmx_pt` IA32_VMX_MISC[14] is 0. */
static void open_scene(struct scene *s, const struct kind *kind, bool no_vmx_pt)
{
	struct ptah_capture_config config;
	uint64_t irqs;

	s->kind = kind;
	s->processor = *ptah_model_find(kind->processor);
	s->processor.vmx = true;
	if (no_vmx_pt)
		s->processor.vmx_pt = false;
	rig_open(&s->rig, &s->processor, 2);
	s->m = ptah_machine_model(s->rig.machine, 0);
	config = rig_config(&s->rig, &s->trace);
	config.cpu = kind->thread ? PTAH_CAPTURE_THREAD : 0;
	config.no_xsaves = kind->no_xsaves;
	config.shape = kind->shape;
	s->c = rig_capture(&s->rig, &config);
	assert_int_equal(ptah_capture_start(s->c), PTAH_OK);
	if (kind->thread) {
		irqs = s->rig.hal.irq_save(s->rig.machine);
		assert_int_equal(ptah_capture_switch_in(s->c), PTAH_OK);
		s->rig.hal.irq_restore(s->rig.machine, irqs);
	}
	assert_true(rig_enabled(&s->rig, 0));
}

static void close_scene(struct scene *s)
{
	assert_int_equal(ptah_capture_free(s->c), PTAH_OK);
	assert_false(rig_enabled(&s->rig, 0));
	assert_int_equal(s->rig.foreign, 0);
	rig_close(&s->rig);
}

static void notify(struct scene *s, void (*what)(struct ptah_engine *engine))
{
	uint64_t irqs = s->rig.hal.irq_save(s->rig.machine);

	what(s->rig.engine);
	s->rig.hal.irq_restore(s->rig.machine, irqs);
}

/* All output is in the buffer, with all marks in order; and the position is exact. */
static void expect_all(struct scene *s, size_t others)
{
	struct ptah_capture_status status;

	assert_int_equal(ptah_capture_flush(s->c, NULL), PTAH_OK);
	assert_int_equal(ptah_capture_pause(s->c), PTAH_OK);
	status = rig_status(s->c);
	assert_int_equal(status.position, rig_output(&s->rig, 0));
	assert_int_equal(rig_check(s->c, status.oldest, status.position,
				   status.oldest ? UINT64_MAX : 0,
				   others ? others : SLICE * (status.looks + status.starts + 2)),
			 s->rig.next);
	assert_int_equal(ptah_capture_resume(s->c), PTAH_OK);
}

/* VMX */

/* VMXON clears TraceEn without notice to the engine. */
TEST(vmxon_unannounced)
{
	struct scene s;
	uint64_t position;
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		open_scene(&s, &kinds[i], true);
		rig_mark(&s.rig, 0, 100);
		assert_int_equal(ptah_model_vmxon(s.m), PTAH_OK);
		assert_false(rig_enabled(&s.rig, 0));
		rig_flags(s.c);
		/*
		 * At the engine's next call the trace so far is kept, the gap is reported, and
		 * nothing faults.
		 */
		assert_int_equal(ptah_capture_flush(s.c, &position), PTAH_OK);
		assert_int_equal(position, rig_output(&s.rig, 0));
		assert_int_equal(rig_check(s.c, 0, position, 0, 2 * SLICE), 100);
		assert_true(rig_flags(s.c) & PTAH_CAPTURED_PARTIAL);
		assert_int_equal(rig_status(s.c).error, PTAH_E_UNSUPPORTED);
		assert_int_equal(rig_status(s.c).state, PTAH_CAPTURE_BLOCKED);
		assert_int_equal(rig_status(s.c).msr, 0);
		assert_false(rig_enabled(&s.rig, 0));
		/* The trace continues at the first call after VMXOFF, with a PSB. */
		assert_int_equal(ptah_model_vmxoff(s.m), PTAH_OK);
		assert_int_equal(ptah_capture_flush(s.c, NULL), PTAH_OK);
		assert_true(rig_enabled(&s.rig, 0));
		rig_mark(&s.rig, 0, 100);
		expect_all(&s, 0);
		close_scene(&s);
	}
}

/* The port does not report VMX operation: the engine learns of it from the processor's #GP. */
TEST(vmxon_unknown)
{
	struct scene s;

	open_scene(&s, &kinds[2], true);
	s.rig.hal.in_vmx = NULL;
	rig_mark(&s.rig, 0, 10);
	assert_int_equal(ptah_model_vmxon(s.m), PTAH_OK);
	assert_int_equal(ptah_capture_flush(s.c, NULL), PTAH_OK);
	assert_int_equal(rig_status(s.c).state, PTAH_CAPTURE_ERROR);
	assert_int_equal(rig_status(s.c).error, PTAH_E_UNSUPPORTED);
	assert_int_equal(rig_status(s.c).msr, PTAH_IA32_RTIT_CTL);
	assert_true(rig_flags(s.c) & PTAH_CAPTURED_PARTIAL);
	assert_int_equal(ptah_capture_position(s.c), rig_output(&s.rig, 0));
	assert_int_equal(ptah_capture_resume(s.c), PTAH_E_UNSUPPORTED);
	assert_int_equal(ptah_capture_stop(s.c), PTAH_OK);
	assert_int_equal(ptah_capture_start(s.c), PTAH_E_UNSUPPORTED);
	assert_int_equal(rig_status(s.c).state, PTAH_CAPTURE_IDLE);
	assert_int_equal(ptah_model_vmxoff(s.m), PTAH_OK);
	assert_int_equal(ptah_capture_start(s.c), PTAH_OK);
	rig_mark(&s.rig, 0, 10);
	expect_all(&s, 0);
	close_scene(&s);
}

/* With notice the trace stops before VMXON without loss, and continues by itself after VMXOFF. */
TEST(vmxon_announced)
{
	struct scene s;
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		open_scene(&s, &kinds[i], true);
		rig_mark(&s.rig, 0, 100);
		rig_flags(s.c);
		notify(&s, ptah_engine_vmxon);
		assert_false(rig_enabled(&s.rig, 0));
		assert_int_equal(ptah_capture_position(s.c), rig_output(&s.rig, 0));
		assert_int_equal(ptah_model_vmxon(s.m), PTAH_OK);
		assert_int_equal(rig_status(s.c).state, PTAH_CAPTURE_BLOCKED);
		/* No call in between sets TraceEn or raises #GP. */
		assert_int_equal(ptah_capture_flush(s.c, NULL), PTAH_OK);
		assert_int_equal(ptah_capture_pause(s.c), PTAH_OK);
		assert_int_equal(ptah_capture_resume(s.c), PTAH_OK);
		assert_int_equal(ptah_capture_reconfigure(s.c, &s.trace, NULL), PTAH_OK);
		assert_false(rig_enabled(&s.rig, 0));
		assert_int_equal(rig_status(s.c).msr, 0);
		assert_int_equal(rig_status(s.c).state, PTAH_CAPTURE_BLOCKED);
		assert_int_equal(ptah_model_vmxoff(s.m), PTAH_OK);
		notify(&s, ptah_engine_vmxoff);
		assert_true(rig_enabled(&s.rig, 0));
		assert_true(rig_flags(s.c) & PTAH_CAPTURED_PARTIAL);
		rig_mark(&s.rig, 0, 100);
		expect_all(&s, 0);
		/* TraceEn was already 0 at each VMXON. */
		assert_int_equal(rig_status(s.c).partial, 0);
		close_scene(&s);
	}
}

/* With IA32_VMX_MISC[14] = 1 nothing changes. */
TEST(vmxon_harmless)
{
	struct scene s;

	open_scene(&s, &kinds[2], false);
	notify(&s, ptah_engine_vmxon);
	assert_int_equal(ptah_model_vmxon(s.m), PTAH_OK);
	assert_true(rig_enabled(&s.rig, 0));
	rig_mark(&s.rig, 0, 100);
	expect_all(&s, 0);
	assert_int_equal(ptah_model_vmxoff(s.m), PTAH_OK);
	notify(&s, ptah_engine_vmxoff);
	assert_true(rig_enabled(&s.rig, 0));
	assert_false(rig_flags(s.c) & PTAH_CAPTURED_PARTIAL);
	close_scene(&s);
}

/* The traced thread is switched in on this processor, or out. */
static int switch_in(struct scene *s, unsigned cpu)
{
	uint64_t irqs;
	int status;

	ptah_machine_set_cpu(s->rig.machine, cpu);
	irqs = s->rig.hal.irq_save(s->rig.machine);
	status = ptah_capture_switch_in(s->c);
	s->rig.hal.irq_restore(s->rig.machine, irqs);
	return status;
}

static void switch_out(struct scene *s)
{
	uint64_t irqs = s->rig.hal.irq_save(s->rig.machine);

	ptah_capture_switch_out(s->c);
	s->rig.hal.irq_restore(s->rig.machine, irqs);
}

/* A thread on a processor in VMX operation is not traced, and the engine reports that. */
TEST(thread_comes_during_vmx)
{
	struct scene s;

	open_scene(&s, &kinds[4], true);
	notify(&s, ptah_engine_vmxon);
	assert_int_equal(ptah_model_vmxon(s.m), PTAH_OK);
	switch_out(&s);
	assert_int_equal(rig_status(s.c).state, PTAH_CAPTURE_OUT);
	/* On another processor it is traced, and the gap so far is reported. */
	assert_int_equal(switch_in(&s, 1), PTAH_OK);
	assert_true(rig_enabled(&s.rig, 1));
	switch_out(&s);
	assert_true(rig_flags(s.c) & PTAH_CAPTURED_PARTIAL);
	/* Back on the first processor: what it runs now is the next gap. */
	assert_int_equal(switch_in(&s, 0), PTAH_E_UNSUPPORTED);
	assert_int_equal(rig_status(s.c).state, PTAH_CAPTURE_BLOCKED);
	assert_false(rig_enabled(&s.rig, 0));
	switch_out(&s);
	assert_int_equal(switch_in(&s, 1), PTAH_OK);
	switch_out(&s);
	assert_true(rig_flags(s.c) & PTAH_CAPTURED_PARTIAL);
	assert_int_equal(ptah_capture_position(s.c), rig_output(&s.rig, 0) + rig_output(&s.rig, 1));
	assert_int_equal(rig_status(s.c).msr, 0);
	ptah_machine_set_cpu(s.rig.machine, 0);
	close_scene(&s);
}

/* Started while tracing is impossible: refused with the reason; the trace begins after VMXOFF. */
TEST(start_during_vmx)
{
	struct scene s;

	open_scene(&s, &kinds[2], true);
	assert_int_equal(ptah_capture_stop(s.c), PTAH_OK);
	notify(&s, ptah_engine_vmxon);
	assert_int_equal(ptah_model_vmxon(s.m), PTAH_OK);
	rig_flags(s.c);
	assert_int_equal(ptah_capture_start(s.c), PTAH_E_UNSUPPORTED);
	assert_int_equal(rig_status(s.c).state, PTAH_CAPTURE_BLOCKED);
	assert_int_equal(ptah_model_vmxoff(s.m), PTAH_OK);
	notify(&s, ptah_engine_vmxoff);
	assert_true(rig_enabled(&s.rig, 0));
	assert_true(rig_flags(s.c) & PTAH_CAPTURED_PARTIAL);
	rig_mark(&s.rig, 0, 10);
	expect_all(&s, 0);
	close_scene(&s);

	/* Without notice of VMXON the engine cannot know when to begin. */
	open_scene(&s, &kinds[2], true);
	assert_int_equal(ptah_capture_stop(s.c), PTAH_OK);
	assert_int_equal(ptah_model_vmxon(s.m), PTAH_OK);
	assert_int_equal(ptah_capture_start(s.c), PTAH_E_UNSUPPORTED);
	assert_int_equal(rig_status(s.c).state, PTAH_CAPTURE_IDLE);
	assert_int_equal(ptah_model_vmxoff(s.m), PTAH_OK);
	assert_int_equal(ptah_capture_start(s.c), PTAH_OK);
	close_scene(&s);
}

/* Virtual machines */

struct vm {
	struct rig rig;
	struct ptah_model *m;
	struct ptah_model_vmcs vmcs;
	struct ptah_capture *host, *guest;
	bool in;
	uint64_t before, of_guest;
	unsigned exits; /* by a PMI */
	int status;	/* of the last entry */
};

static void enter_guest(struct vm *vm)
{
	vm->status = ptah_capture_vmentry(vm->guest, &vm->vmcs.guest_rtit_ctl);
	assert_false(rig_enabled(&vm->rig, 0));
	vm->before = rig_output(&vm->rig, 0);
	vm->in = true;
	assert_int_equal(ptah_model_vm_entry(vm->m, &vm->vmcs), PTAH_OK);
}

static void leave_guest(struct vm *vm)
{
	assert_int_equal(ptah_model_vm_exit(vm->m, &vm->vmcs), PTAH_OK);
	assert_false(rig_enabled(&vm->rig, 0));
	vm->in = false;
	vm->of_guest += rig_output(&vm->rig, 0) - vm->before;
}

/* An NMI causes a VM exit and is handled, and the hypervisor continues with its loop. */
static void pmi_of_vm(void *argument, unsigned cpu)
{
	struct vm *vm = argument;
	bool in = vm->in;

	if (in)
		leave_guest(vm);
	rig_pmi(&vm->rig, cpu);
	if (!in)
		return;
	vm->exits++;
	ptah_capture_vmexit(vm->guest);
	enter_guest(vm);
}

static int (*real_wrmsr)(void *port, uint32_t msr, uint64_t value);

static int sound_wrmsr(void *port, uint32_t msr, uint64_t value)
{
	int status = real_wrmsr(port, msr, value);

	assert_int_equal(status, PTAH_OK);
	return status;
}

static void open_vm(struct vm *vm, const char *processor, uint8_t policy)
{
	const struct ptah_model_faults faults = {.ack_needs_topa = true};
	struct ptah_capture_config config;
	struct ptah_trace_config trace;

	memset(vm, 0, sizeof(*vm));
	rig_open(&vm->rig, ptah_model_find(processor), 2);
	ptah_machine_on_pmi(vm->rig.machine, pmi_of_vm, vm);
	vm->m = ptah_machine_model(vm->rig.machine, 0);
	/* VM exit clears CTL.ToPA too, and bit 55 may be cleared only while that is 1. */
	ptah_model_set_faults(vm->m, &faults);
	real_wrmsr = vm->rig.hal.wrmsr;
	vm->rig.hal.wrmsr = sound_wrmsr;
	vm->vmcs.load_rtit_ctl = vm->vmcs.clear_rtit_ctl = true;
	config = rig_config(&vm->rig, &trace);
	vm->host = rig_capture(&vm->rig, &config);
	config.cpu = PTAH_CAPTURE_THREAD;
	config.policy = policy;
	config.region = 4096;
	config.pmis = 16;
	vm->guest = rig_capture(&vm->rig, &config);
	assert_int_equal(ptah_capture_start(vm->host), PTAH_OK);
	assert_int_equal(ptah_capture_start(vm->guest), PTAH_OK);
	assert_int_equal(ptah_model_vmxon(vm->m), PTAH_OK);
}

static void close_vm(struct vm *vm)
{
	assert_int_equal(ptah_capture_free(vm->host), PTAH_OK);
	assert_int_equal(ptah_capture_free(vm->guest), PTAH_OK);
	assert_int_equal(vm->rig.foreign, 0);
	rig_close(&vm->rig);
}

/* The guest's trace contains the guest, the host's trace the host, with PMIs in both. */
TEST(guest_and_host)
{
	static const char *const processors[] = {"sapphire-rapids", "skylake", "maximal"};
	struct vm vm;
	uint64_t irqs, position;
	unsigned i, k;

	for (k = 0; k < 3; k++) {
		open_vm(&vm, processors[k], PTAH_POLICY_WRAP);
		for (i = 0; i < 30; i++) {
			rig_mark(&vm.rig, 0, 10 + i);
			irqs = vm.rig.hal.irq_save(vm.rig.machine);
			enter_guest(&vm);
			assert_int_equal(vm.status, PTAH_OK);
			assert_true(rig_enabled(&vm.rig, 0));
			rig_mark(&vm.rig, 0, 1000 + i);
			leave_guest(&vm);
			ptah_capture_vmexit(vm.guest);
			vm.rig.hal.irq_restore(vm.rig.machine, irqs);
			position = ptah_capture_position(vm.guest);
			assert_int_equal(position, vm.of_guest);
			/* The last thousand instructions are the guest's. */
			assert_int_equal(rig_check(vm.guest, position - 900 * MARK, position,
						   UINT64_MAX, 12 * SLICE),
					 vm.rig.next);
			assert_true(rig_enabled(&vm.rig, 0));
		}
		assert_true(vm.exits > 30);
		assert_int_equal(ptah_capture_stop(vm.host), PTAH_OK);
		assert_int_equal(ptah_capture_position(vm.host),
				 rig_output(&vm.rig, 0) - vm.of_guest);
		assert_false((rig_flags(vm.guest) | rig_flags(vm.host)) &
			     (PTAH_CAPTURED_PARTIAL | PTAH_CAPTURED_ERROR | PTAH_CAPTURED_UNSURE));
		close_vm(&vm);
	}
}

static uint64_t irqs_off(struct vm *vm)
{
	return vm->rig.hal.irq_save(vm->rig.machine);
}

static void irqs_back(struct vm *vm, uint64_t state)
{
	vm->rig.hal.irq_restore(vm->rig.machine, state);
}

/* Fills the guest's buffer while the guest runs, so that nothing more is traced. */
static void fill_guest(struct vm *vm)
{
	uint64_t irqs = irqs_off(vm);

	enter_guest(vm);
	rig_mark(&vm->rig, 0, 65536 / MARK + 10);
	leave_guest(vm);
	ptah_capture_vmexit(vm->guest);
	irqs_back(vm, irqs);
	assert_int_equal(rig_status(vm->guest).state, PTAH_CAPTURE_FULL);
	assert_int_equal(rig_status(vm->guest).position, 65536);
}

/* Nothing has changed: its trace on another processor is complete. */
static void trace_elsewhere(struct vm *vm)
{
	uint64_t position = ptah_capture_position(vm->guest), output = rig_output(&vm->rig, 1);
	uint64_t irqs;

	ptah_machine_set_cpu(vm->rig.machine, 1);
	irqs = irqs_off(vm);
	assert_int_equal(ptah_capture_switch_in(vm->guest), PTAH_OK);
	irqs_back(vm, irqs);
	assert_true(rig_enabled(&vm->rig, 1));
	rig_mark(&vm->rig, 1, 10);
	irqs = irqs_off(vm);
	ptah_capture_switch_out(vm->guest);
	irqs_back(vm, irqs);
	assert_int_equal(ptah_capture_position(vm->guest) - position,
			 rig_output(&vm->rig, 1) - output);
	ptah_machine_set_cpu(vm->rig.machine, 0);
}

enum {
	STOPS,
	PAUSES,
	FLUSHES,
	DIES,
	ENDS
};

/*
 * An interrupt that the hypervisor allows between VM exit and
 * ptah_capture_vmexit() ends the guest's slice: the host's trace continues, and
 * the guest's can continue on any processor.
 */
static void guest_ends(unsigned how, bool full)
{
	struct vm vm;
	uint64_t irqs;

	open_vm(&vm, "sapphire-rapids", PTAH_POLICY_STOP);
	if (full)
		fill_guest(&vm);
	irqs = irqs_off(&vm);
	enter_guest(&vm);
	assert_int_equal(vm.status, PTAH_OK);
	rig_mark(&vm.rig, 0, 10);
	leave_guest(&vm);
	irqs_back(&vm, irqs);
	switch (how) {
	case STOPS:
		assert_int_equal(ptah_capture_stop(vm.guest), PTAH_OK);
		break;
	case PAUSES:
		assert_int_equal(ptah_capture_pause(vm.guest), PTAH_OK);
		break;
	case FLUSHES:
		assert_int_equal(ptah_capture_flush(vm.guest, NULL), PTAH_OK);
		break;
	default:
		assert_int_equal(ptah_capture_free(vm.guest), PTAH_OK);
		vm.guest = NULL;
	}
	if (vm.guest) {
		irqs = irqs_off(&vm);
		ptah_capture_vmexit(vm.guest);
		irqs_back(&vm, irqs);
		assert_int_equal(ptah_capture_position(vm.guest), vm.of_guest);
		assert_int_equal(ptah_capture_consume(vm.guest, vm.of_guest, NULL), PTAH_OK);
		if (how == STOPS)
			assert_int_equal(ptah_capture_start(vm.guest), PTAH_OK);
		else
			assert_int_equal(ptah_capture_resume(vm.guest), PTAH_OK);
		trace_elsewhere(&vm);
	}
	assert_true(rig_enabled(&vm.rig, 0));
	rig_mark(&vm.rig, 0, 10);
	close_vm(&vm);
}

TEST(guest_stops)
{
	unsigned how;

	for (how = STOPS; how < ENDS; how++) {
		guest_ends(how, false);
		guest_ends(how, true);
	}
}

/* The host's trace is paused in an NMI just before VM entry: both traces stay exact. */
TEST(nmi_before_entry)
{
	struct vm vm;
	uint64_t irqs;

	open_vm(&vm, "sapphire-rapids", PTAH_POLICY_WRAP);
	rig_mark(&vm.rig, 0, 10);
	irqs = irqs_off(&vm);
	assert_int_equal(ptah_capture_vmentry(vm.guest, &vm.vmcs.guest_rtit_ctl), PTAH_OK);
	assert_int_equal(ptah_capture_pause_here(vm.host), PTAH_OK);
	vm.before = rig_output(&vm.rig, 0);
	assert_int_equal(ptah_model_vm_entry(vm.m, &vm.vmcs), PTAH_OK);
	rig_mark(&vm.rig, 0, 100);
	leave_guest(&vm);
	ptah_capture_vmexit(vm.guest);
	irqs_back(&vm, irqs);
	assert_int_equal(ptah_capture_position(vm.guest), vm.of_guest);
	assert_int_equal(rig_check(vm.guest, 0, vm.of_guest, 10, 2 * SLICE), 110);
	assert_false(rig_enabled(&vm.rig, 0));
	assert_int_equal(ptah_capture_resume(vm.host), PTAH_OK);
	rig_mark(&vm.rig, 0, 10);
	assert_int_equal(ptah_capture_stop(vm.host), PTAH_OK);
	assert_int_equal(ptah_capture_position(vm.host), rig_output(&vm.rig, 0) - vm.of_guest);
	close_vm(&vm);
}

/* No capture, or one of another processor: *ctl is 0, and the guest runs. */
TEST(guest_untraced)
{
	struct vm vm;
	uint64_t irqs, ctl = 1;

	open_vm(&vm, "sapphire-rapids", PTAH_POLICY_WRAP);
	irqs = vm.rig.hal.irq_save(vm.rig.machine);
	assert_int_equal(ptah_capture_vmentry(vm.host, &ctl), PTAH_E_INVAL);
	assert_int_equal(ptah_capture_vmentry(vm.guest, NULL), PTAH_E_INVAL);
	ptah_capture_vmexit(vm.guest); /* it is not switched in */
	assert_true(rig_enabled(&vm.rig, 0));
	vm.rig.hal.irq_restore(vm.rig.machine, irqs);
	assert_int_equal(ptah_capture_pause(vm.guest), PTAH_OK);
	irqs = vm.rig.hal.irq_save(vm.rig.machine);
	/*
	 * The host's trace is stopped nevertheless: SDM, VM entry that loads the MSR fails with
	 * TraceEn 1.
	 */
	enter_guest(&vm);
	assert_int_equal(vm.status, PTAH_OK);
	assert_int_equal(vm.vmcs.guest_rtit_ctl, 0);
	assert_false(rig_enabled(&vm.rig, 0));
	leave_guest(&vm);
	ptah_capture_vmexit(vm.guest);
	vm.rig.hal.irq_restore(vm.rig.machine, irqs);
	assert_true(rig_enabled(&vm.rig, 0));
	/* The capture is on another processor meanwhile. */
	assert_int_equal(ptah_capture_resume(vm.guest), PTAH_OK);
	ptah_machine_set_cpu(vm.rig.machine, 1);
	irqs = vm.rig.hal.irq_save(vm.rig.machine);
	assert_int_equal(ptah_capture_switch_in(vm.guest), PTAH_OK);
	vm.rig.hal.irq_restore(vm.rig.machine, irqs);
	ptah_machine_set_cpu(vm.rig.machine, 0);
	irqs = vm.rig.hal.irq_save(vm.rig.machine);
	ctl = 1;
	assert_int_equal(ptah_capture_vmentry(vm.guest, &ctl), PTAH_E_BUSY);
	assert_int_equal(ctl, 0);
	ptah_capture_vmexit(vm.guest);
	vm.rig.hal.irq_restore(vm.rig.machine, irqs);
	assert_true(rig_enabled(&vm.rig, 0));
	close_vm(&vm);
}

/* SMM: RSM restores what the SMI cleared; only the code of SMM is missing. */

TEST(smi_between)
{
	struct scene s;
	unsigned round;
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		open_scene(&s, &kinds[i], false);
		for (round = 0; round < 40; round++) {
			rig_mark(&s.rig, 0, 40);
			assert_int_equal(ptah_model_smi(s.m), PTAH_OK);
			assert_false(rig_enabled(&s.rig, 0));
			assert_int_equal(ptah_model_rsm(s.m), PTAH_OK);
			assert_true(rig_enabled(&s.rig, 0));
			if (round % 5 == 0)
				expect_all(&s, 0);
		}
		expect_all(&s, 0);
		assert_false(rig_flags(s.c) & (PTAH_CAPTURED_ERROR | PTAH_CAPTURED_UNSURE));
		close_scene(&s);
	}
}

/* The same, with an SMI between any two instructions of the engine. */
static void smi_in_gap(void *argument, unsigned cpu, const char *callback)
{
	struct ptah_model *m = ptah_machine_model(argument, cpu);

	(void)callback;
	assert_int_equal(ptah_model_smi(m), PTAH_OK);
	assert_int_equal(ptah_model_rsm(m), PTAH_OK);
}

TEST(smi_everywhere)
{
	struct scene s;
	unsigned round;
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		open_scene(&s, &kinds[i], false);
		ptah_machine_on_gap(s.rig.machine, smi_in_gap, s.rig.machine);
		for (round = 0; round < 12; round++) {
			rig_mark(&s.rig, 0, 400);
			expect_all(&s, SIZE_MAX); /* each SMI causes packets */
			if (s.kind->thread) {
				switch_out(&s);
				assert_int_equal(switch_in(&s, 0), PTAH_OK);
			} else {
				assert_int_equal(ptah_capture_stop(s.c), PTAH_OK);
				assert_int_equal(ptah_capture_start(s.c), PTAH_OK);
			}
		}
		ptah_machine_on_gap(s.rig.machine, NULL, NULL);
		assert_false(rig_flags(s.c) &
			     (PTAH_CAPTURED_ERROR | PTAH_CAPTURED_UNSURE | PTAH_CAPTURED_PARTIAL));
		close_scene(&s);
	}
}

/* Resets */

/* The bytes up to `told` are unchanged and contain `marks` marks. */
static void expect_prefix(struct scene *s, uint64_t told, uint64_t marks)
{
	assert_int_equal(rig_check(s->c, 0, told, 0, 4 * SLICE), marks);
}

enum {
	WARM,
	COLD,
	SENTER
};

/*
 * A processor that loses TraceEn, and perhaps its other registers. The output
 * up to the engine's last call stays in the buffer; if the registers survive,
 * all of it.
 */
static void loses_registers(const struct kind *kind, int how)
{
	const bool kept = how == SENTER || (how == WARM && strcmp(kind->processor, "broadwell") &&
					    strcmp(kind->processor, "minimal") &&
					    strcmp(kind->processor, "minimal-range"));
	struct scene s;
	uint64_t told, output;
	uint32_t flags;

	open_scene(&s, kind, false);
	rig_mark(&s.rig, 0, 100);
	assert_int_equal(ptah_capture_flush(s.c, &told), PTAH_OK);
	rig_mark(&s.rig, 0, 50);
	rig_output(&s.rig, 0); /* no bytes are left inside the processor */
	rig_flags(s.c);
	if (how == SENTER)
		ptah_model_senter(s.m);
	else
		ptah_model_reset(s.m, how == COLD);
	set_xss(&s.rig, 0);
	s.rig.hal.pmi_unmask(s.rig.machine); /* the port's LVT entry */
	output = rig_output(&s.rig, 0);
	assert_false(rig_enabled(&s.rig, 0));
	assert_int_equal(ptah_capture_flush(s.c, NULL), PTAH_OK);
	flags = rig_flags(s.c);
	assert_true(flags & PTAH_CAPTURED_PARTIAL);
	assert_false(flags & PTAH_CAPTURED_ERROR);
	assert_int_equal(rig_status(s.c).partial, 1);
	assert_true(rig_enabled(&s.rig, 0));
	/* A position that the engine cannot know is reported as UNSURE. */
	if (kept)
		assert_false(flags & PTAH_CAPTURED_UNSURE);
	else
		assert_true(flags & PTAH_CAPTURED_UNSURE);
	/* From here the position is exact again. */
	rig_mark(&s.rig, 0, 50);
	assert_int_equal(ptah_capture_pause(s.c), PTAH_OK);
	assert_int_equal(ptah_capture_position(s.c) - (kept ? output : told),
			 rig_output(&s.rig, 0) - output);
	expect_prefix(&s, told, 100);
	assert_int_equal(
	    rig_check(s.c, kept ? output : told, ptah_capture_position(s.c), 150, 2 * SLICE), 200);
	close_scene(&s);
}

static bool preserves(const char *processor)
{
	return ptah_model_find(processor)->leaf_14_0[1] & 4;
}

TEST(resets)
{
	size_t i;
	int how;

	/* With CPUID.14H.0:EBX[2] = 1 a warm reset clears TraceEn alone. */
	assert_true(preserves("skylake"));
	assert_false(preserves("broadwell") || preserves("minimal") || preserves("minimal-range"));
	for (how = WARM; how <= SENTER; how++) {
		for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
			loses_registers(&kinds[i], how);
	}
}

/*
 * Suspend to memory: the engine is notified before the processor goes offline.
 * It loses all its registers and comes back, and the trace continues, with
 * PMIs, although nothing but the engine sets up the LVT entry.
 */
static void suspends(const struct kind *kind)
{
	struct ptah_capture_status before;
	struct scene s;
	unsigned round;

	open_scene(&s, kind, false);
	for (round = 0; round < 3; round++) {
		rig_mark(&s.rig, 0, 300);
		rig_flags(s.c);
		notify(&s, ptah_engine_cpu_offline);
		assert_false(rig_enabled(&s.rig, 0));
		before = rig_status(s.c);
		assert_int_equal(before.position, rig_output(&s.rig, 0));
		assert_int_equal(before.state,
				 kind->thread ? PTAH_CAPTURE_OUT : PTAH_CAPTURE_BLOCKED);
		ptah_model_reset(s.m, true);
		set_xss(&s.rig, 0);
		notify(&s, ptah_engine_cpu_online);
		if (kind->thread)
			assert_int_equal(switch_in(&s, 0), PTAH_OK);
		assert_true(rig_enabled(&s.rig, 0));
		assert_true(rig_flags(s.c) & PTAH_CAPTURED_PARTIAL);
		rig_mark(&s.rig, 0, 300);
		expect_all(&s, 0);
	}
	before = rig_status(s.c);
	rig_mark(&s.rig, 0, (unsigned)(before.cycle / MARK) * 2);
	if (before.pmi)
		assert_true(rig_status(s.c).pmis > before.pmis);
	if (before.shape != PTAH_SHAPE_SINGLE)
		expect_all(&s, 0);
	assert_int_equal(rig_status(s.c).partial, 0);
	close_scene(&s);
}

TEST(suspend)
{
	size_t i;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		suspends(&kinds[i]);
}
