/* SPDX-License-Identifier: MIT */
/*
 * The packets of each kind of branch, event and change of state, byte by byte:
 * the cases of the SDM's tables "Packet Generation under Different Enable
 * Conditions" and "PwrEvtEn and PTWEn Packet Generation ...", whose numbers
 * stand beside the calls; the chapter's examples; and rules of its text that
 * are in no table.
 */
#include "rig.h"

#define IP    UINT64_C(0x401000)
#define OUT   UINT64_C(0x600000) /* outside of filter ranges */
#define STOP  UINT64_C(0x700000) /* in TraceStop ranges */
#define KERN  UINT64_C(0xffffffff81000000)
#define CR3   UINT64_C(0x5000)
#define RATIO 30

/* The packets of a start with PacketByteCnt 0, in user code and in the kernel. */
#define PSB_USER "PSB;CBR 30;MODE.TSX commit;PSBEND"
#define PSB_ALL	 "PSB;PIP cr3 0x5000;CBR 30;MODE.TSX commit;PSBEND"
#define ON	 ";MODE.Exec 64-bit;TIP.PGE 0x401000"
#define USER	 PSB_USER ON
#define ALL	 PSB_ALL ON

static struct rig *new_rig(uint64_t ctl)
{
	struct rig *rig = rig_new("maximal", 1 << 20);
	struct ptah_model_context context = {.cr3 = CR3, .cpl = 3, .mode = PTAH_EXEC_64};

	rig->m->clock.ratio = RATIO;
	rig->m->program.paging = MODEL_PAGING_4_LEVEL;
	rig->ctl = (RIG_CTL & ~PTAH_RTIT_CTL_OS) | ctl;
	ptah_model_begin(rig->m, IP, &context);
	return rig;
}

static struct rig *started(uint64_t ctl)
{
	struct rig *rig = new_rig(ctl);

	rig_start(rig);
	return rig;
}

#define OS PTAH_RTIT_CTL_OS

/* Sets range n to that kind. */
static void set_range(struct rig *rig, unsigned n, unsigned kind, uint64_t first, uint64_t last)
{
	rig_set(rig, PTAH_IA32_RTIT_ADDR(n), first);
	rig_set(rig, PTAH_IA32_RTIT_ADDR(n) + 1, last);
	rig->ctl |= (uint64_t)kind << PTAH_RTIT_CTL_ADDR_CFG(n);
}

/* A filter around IP, and a TraceStop range. */
static struct rig *filtered(uint64_t ctl)
{
	struct rig *rig = new_rig(ctl);

	set_range(rig, 0, PTAH_RANGE_FILTER, IP, IP + 0xfff);
	set_range(rig, 1, PTAH_RANGE_STOP, STOP, STOP + 0xfff);
	return rig;
}

static void near_branch(struct rig *rig, unsigned kind, uint64_t ip, uint64_t end, uint64_t to)
{
	ptah_model_branch(rig->m, &(struct ptah_model_branch){ip, end, to, (uint8_t)kind, to != 0});
}

static void cond(struct rig *rig, uint64_t to)
{
	near_branch(rig, PTAH_INSN_COND, rig->m->program.ip, rig->m->program.ip + 2, to);
}

static void jump(struct rig *rig, uint64_t to)
{
	near_branch(rig, PTAH_INSN_JUMP, rig->m->program.ip, rig->m->program.ip + 5, to);
}

static void jump_ind(struct rig *rig, uint64_t to)
{
	near_branch(rig, PTAH_INSN_JUMP_IND, rig->m->program.ip, rig->m->program.ip + 2, to);
}

/* A transfer from the program's address to `to`, at privilege level `cpl`. */
static struct ptah_model_transfer transfer_of(struct rig *rig, unsigned kind, uint64_t to,
					      unsigned cpl)
{
	struct ptah_model_transfer t = {
	    .ip = rig->m->program.ip, .to = to, .kind = (uint8_t)kind, .vector = 14};

	ptah_model_context(rig->m, &t.after);
	t.after.cpl = (uint8_t)cpl;
	return t;
}

static void transfer(struct rig *rig, unsigned kind, uint64_t to, unsigned cpl)
{
	struct ptah_model_transfer t = transfer_of(rig, kind, to, cpl);

	ptah_model_transfer(rig->m, &t);
}

static void to_mode(struct rig *rig, unsigned kind, uint64_t to, unsigned mode, uint64_t cr3)
{
	struct ptah_model_transfer t = transfer_of(rig, kind, to, rig->m->program.cpl);

	t.after.mode = (uint8_t)mode;
	t.after.cr3 = cr3;
	ptah_model_transfer(rig->m, &t);
}

static void expect_and_free(struct rig *rig, const char *text)
{
	rig_expect(rig, text);
	rig_free(rig);
}

/* TraceEn, cases 2 and 3 */

TEST(trace_en_out_of_context)
{
	struct rig *rig = new_rig(0);

	rig->m->program.cpl = 0;
	rig_start(rig); /* 2b */
	assert_int_equal(rig_status(rig) & 7, PTAH_RTIT_STATUS_FILTER_EN | 4);
	rig_stop(rig); /* 3a */
	assert_int_equal(rig_status(rig) & 7, 0);
	rig_expect(rig, "PSB;CBR 30;PSBEND");
	rig_start(rig); /* 2a: PacketByteCnt is not 0 */
	expect_and_free(rig, "PSB;CBR 30;PSBEND;CBR 30");
}

TEST(trace_en_in_context)
{
	struct rig *rig = new_rig(PTAH_RTIT_CTL_TSC_EN | PTAH_RTIT_CTL_MTC_EN | OS);
	size_t n;

	rig->m->clock.n = 88;
	rig->m->clock.d = 1;
	ptah_model_set_tsc(rig->m, 0x123456 * 88 + 5);
	rig_start(rig); /* 2e, with the PSB+ first: see trace.c */
	assert_int_equal(rig_status(rig) & 7, 7);
	rig_stop(rig); /* 3b */
	n = rig_bytes(rig);
	rig_expect(rig, "PSB;TSC 0x641fd95;TMA ctc 0x3456 fc 5;PIP cr3 0x5000;CBR 30;"
			"MODE.TSX commit;PSBEND" ON ";FUP 0x401000;TIP.PGD");
	rig_start(rig); /* 2d */
	rig_expect_from(rig, n,
			"TSC 0x641fd95;TMA ctc 0x3456 fc 5;CBR 30;MODE.Exec 64-bit;"
			"TIP.PGE.48 0x401000");
	rig_free(rig);
}

/* Stopped and Error keep TriggerEn 0: no packets at all. */
TEST(trace_en_with_stopped)
{
	struct rig *rig = new_rig(OS);

	rig_set(rig, PTAH_IA32_RTIT_STATUS, PTAH_RTIT_STATUS_STOPPED);
	rig_start(rig);
	jump_ind(rig, IP + 0x100);
	rig_stop(rig);
	assert_int_equal(rig_status(rig) & 0x3f, PTAH_RTIT_STATUS_STOPPED);
	expect_and_free(rig, "");
}

TEST(psb_has_all)
{
	struct rig *rig = started(PTAH_RTIT_CTL_TSC_EN | PTAH_RTIT_CTL_MTC_EN | OS);
	size_t n = rig_bytes(rig);

	rig->m->program.vmx = MODEL_VMX_ROOT;
	rig->m->program.vmcs = 0x7000;
	rig->m->program.tsx = true;
	rig->m->psb_due = true;
	rig->m->clock.n = 88;
	rig->m->clock.d = 1;
	ptah_model_set_tsc(rig->m, 88 * 3 + 1);
	jump(rig, IP + 0x100);
	rig_expect_from(rig, n,
			"PSB;TSC 0x109;TMA ctc 3 fc 1;PIP cr3 0x5000;VMCS base 0x7000;CBR 30;"
			"MODE.TSX begin;MODE.Exec 64-bit;FUP 0x401100;PSBEND");
	n = rig_bytes(rig);
	rig->m->program.vmx = MODEL_VMX_GUEST;
	rig->m->program.tsx = false;
	rig->m->psb_due = true;
	jump(rig, IP);
	rig_expect_from(rig, n,
			"PSB;TSC 0x109;TMA ctc 3 fc 1;PIP cr3 0x5000 nr;VMCS base 0x7000;CBR 30;"
			"MODE.TSX commit;MODE.Exec 64-bit;FUP 0x401000;PSBEND");
	n = rig_bytes(rig);
	rig->m->program.conceal = true;
	rig->m->psb_due = true;
	jump(rig, IP);
	rig_expect_from(rig, n,
			"PSB;TSC 0x109;TMA ctc 3 fc 1;PIP cr3 0x5000;CBR 30;"
			"MODE.TSX commit;MODE.Exec 64-bit;FUP 0x401000;PSBEND");
	rig_free(rig);
}

/* MOV CR3, case 5 */

TEST(mov_cr3)
{
	struct rig *rig = new_rig(OS | PTAH_RTIT_CTL_CR3_FILTER);

	rig_set(rig, PTAH_IA32_RTIT_CR3_MATCH, 0x6000);
	rig_start(rig);
	ptah_model_mov_cr3(rig->m, IP + 3, 0x7000);  /* 5a */
	ptah_model_mov_cr3(rig->m, IP + 6, 0x6005);  /* 5b; without its PCID */
	ptah_model_mov_cr3(rig->m, IP + 9, 0x6000);  /* 5d */
	ptah_model_mov_cr3(rig->m, IP + 12, 0x5000); /* 5c */
	expect_and_free(rig, "PSB;CBR 30;PSBEND;PIP cr3 0x6000;MODE.Exec 64-bit;TIP.PGE 0x401006;"
			     "PIP cr3 0x6000;TIP.PGD");
}

/* 5e, 5f: execution reaches a TraceStop range without a branch, and MOV CR3 notices it. */
TEST(mov_cr3_in_a_stop_range)
{
	struct rig *rig = new_rig(OS);

	set_range(rig, 0, PTAH_RANGE_STOP, IP + 0x100, IP + 0x1ff);
	rig_start(rig);
	ptah_model_mov_cr3(rig->m, IP + 0x103, 0x6000);
	assert_true(rig_status(rig) & PTAH_RTIT_STATUS_STOPPED);
	jump_ind(rig, IP);
	rig_expect(rig, ALL ";PIP cr3 0x6000;TIP.PGD 0x401103;TraceStop");
	rig_free(rig);

	rig = filtered(OS);
	ptah_model_stand(rig->m, OUT);
	rig_start(rig);
	ptah_model_mov_cr3(rig->m, STOP + 3, 0x6000); /* 5f */
	assert_true(rig_status(rig) & PTAH_RTIT_STATUS_STOPPED);
	expect_and_free(rig, PSB_ALL ";PIP cr3 0x6000;TraceStop");
}

/* MOV CR3 is no branch: FilterEn does not change although a range was left or entered. */
TEST(mov_cr3_leaves_filter_en)
{
	struct rig *rig = filtered(OS);

	rig_start(rig);
	ptah_model_mov_cr3(rig->m, IP + 0x1003, 0x6000);
	assert_int_equal(rig_status(rig) & 7, 7);
	jump(rig, OUT);
	ptah_model_mov_cr3(rig->m, IP + 3, 0x7000);
	assert_int_equal(rig_status(rig) & 7, 6);
	expect_and_free(rig, ALL ";PIP cr3 0x6000;TIP.PGD 0x600000;PIP cr3 0x7000");
}

TEST(pae_has_more_of_cr3)
{
	struct rig *rig = new_rig(OS | PTAH_RTIT_CTL_CR3_FILTER);

	rig->m->program.paging = MODEL_PAGING_PAE;
	rig_set(rig, PTAH_IA32_RTIT_CR3_MATCH, 0x6020);
	rig_start(rig);
	ptah_model_mov_cr3(rig->m, IP + 3, 0x6000);
	ptah_model_mov_cr3(rig->m, IP + 6, 0x6030);
	expect_and_free(rig, "PSB;CBR 30;PSBEND;PIP cr3 0x6020;MODE.Exec 64-bit;TIP.PGE 0x401006");
}

/* Near branches, cases 6 to 9 */

/* SDM Table "IP Filtering Packet Example". */
TEST(ip_filtering_example)
{
	struct rig *rig = filtered(0);

	ptah_model_stand(rig->m, OUT);
	rig_start(rig);
	jump(rig, IP); /* 6c */
	cond(rig, 0);
	jump(rig, IP + 0x1000); /* 6b: RangeLimit + 1 */
	cond(rig, IP + 0x1050); /* 7a */
	cond(rig, 0);		/* 8a */
	expect_and_free(rig, PSB_USER ON ";TNT N;TIP.PGD 0x402000");
}

TEST(direct_jump)
{
	struct rig *rig = filtered(0);

	rig_start(rig);
	jump(rig, IP + 0x10); /* 6d */
	jump(rig, STOP);      /* 6b */
	assert_int_equal(rig_status(rig) & 0x27, PTAH_RTIT_STATUS_STOPPED);
	jump(rig, IP);
	expect_and_free(rig, USER ";TIP.PGD 0x700000;TraceStop");
}

TEST(direct_jump_outside)
{
	struct rig *rig = filtered(0);

	ptah_model_stand(rig->m, OUT);
	rig_start(rig);
	jump(rig, OUT + 1); /* 6a */
	assert_int_equal(rig_status(rig) & 7, 6);
	jump_ind(rig, STOP); /* TraceStop needs no FilterEn */
	assert_true(rig_status(rig) & PTAH_RTIT_STATUS_STOPPED);
	expect_and_free(rig, PSB_USER ";TraceStop");
}

TEST(conditional)
{
	struct rig *rig = filtered(0);

	ptah_model_choose(rig->m, &(struct ptah_model_choices){.conditional_bare = true});
	rig_start(rig);
	for (unsigned i = 0; i < 7; i++)
		cond(rig, i & 1 ? 0 : IP + 8 * i); /* 7d, 8d: six fill a TNT */
	cond(rig, OUT);				   /* 7f */
	cond(rig, IP);				   /* 7b */
	cond(rig, OUT);				   /* 7e */
	cond(rig, 0);				   /* 8a */
	rig_stop(rig);
	expect_and_free(rig, USER ";TNT TNTNTN;TNT T;TIP.PGD;TIP.PGE 0x401000;TIP.PGD");
}

TEST(conditional_told)
{
	struct rig *rig = filtered(0);

	rig_start(rig);
	cond(rig, 0);
	cond(rig, STOP);
	expect_and_free(rig, USER ";TNT N;TIP.PGD 0x700000;TraceStop");
}

TEST(indirect)
{
	struct rig *rig = filtered(0);

	ptah_model_stand(rig->m, OUT);
	rig_start(rig);
	jump_ind(rig, OUT + 8);	  /* 9a */
	jump_ind(rig, IP);	  /* 9b */
	jump_ind(rig, IP + 0x80); /* 9d */
	jump_ind(rig, OUT);	  /* 9c */
	near_branch(rig, PTAH_INSN_RETURN, OUT, OUT + 1, IP);
	near_branch(rig, PTAH_INSN_RETURN, IP, IP + 1, STOP);
	expect_and_free(rig, USER ";TIP 0x401080;TIP.PGD 0x600000;TIP.PGE 0x401000;"
				  "TIP.PGD 0x700000;TraceStop");
}

TEST(returns)
{
	struct rig *rig = started(0);

	near_branch(rig, PTAH_INSN_CALL, IP, IP + 5, IP + 0x100);
	near_branch(rig, PTAH_INSN_CALL_IND, IP + 0x100, IP + 0x102, IP + 0x200);
	near_branch(rig, PTAH_INSN_RETURN, IP + 0x200, IP + 0x201, IP + 0x102);
	near_branch(rig, PTAH_INSN_RETURN, IP + 0x102, IP + 0x103, IP + 5);
	near_branch(rig, PTAH_INSN_CALL, IP + 5, IP + 10, IP + 10); /* pushes no return address */
	near_branch(rig, PTAH_INSN_RETURN, IP + 10, IP + 11, IP + 10);
	near_branch(rig, PTAH_INSN_CALL, IP + 10, IP + 15, IP + 0x100);
	rig->m->psb_due = true; /* a PSB empties the return address stack */
	jump(rig, IP + 0x100);
	near_branch(rig, PTAH_INSN_RETURN, IP + 0x100, IP + 0x101, IP + 15);
	rig_expect(rig, USER ";TIP 0x401200;TNT TT;TIP 0x40100a;PSB;CBR 30;MODE.TSX commit;"
			     "MODE.Exec 64-bit;FUP 0x401100;PSBEND;TIP 0x40100f");
	rig_free(rig);

	rig = started(PTAH_RTIT_CTL_DIS_RETC);
	near_branch(rig, PTAH_INSN_CALL, IP, IP + 5, IP + 0x100);
	near_branch(rig, PTAH_INSN_RETURN, IP + 0x100, IP + 0x101, IP + 5);
	expect_and_free(rig, USER ";TIP 0x401005");
}

/* A return whose call was not traced, as in "Indirect Transfer Compression for Returns". */
TEST(returns_behind_a_gap)
{
	struct rig *rig = started(0);

	near_branch(rig, PTAH_INSN_CALL, IP, IP + 5, IP + 0x100);
	transfer(rig, PTAH_MODEL_INTERRUPT, KERN, 0);
	transfer(rig, PTAH_MODEL_IRET, IP + 0x100, 3);
	near_branch(rig, PTAH_INSN_RETURN, IP + 0x100, IP + 0x101, IP + 5);
	expect_and_free(rig, USER ";FUP 0x401100;TIP.PGD;TIP.PGE 0x401100;TIP 0x401005");
}

/* SDM Table "TNT Examples with Deferred TIPs". */
TEST(deferred_tips)
{
	static const char *const packets[] = {
	    "TNT N;TIP 0x1308;TNT NTN;TIP 0x1100;TNT N;FUP 0x110c;TIP 0xcc00",
	    "TNT NNTNN;TIP 0x1308;TIP 0x1100;FUP 0x110c;TIP 0xcc00"};
	char text[512];

	for (unsigned defer = 0; defer < 2; defer++) {
		struct rig *rig = new_rig(OS);

		ptah_model_choose(rig->m,
				  &(struct ptah_model_choices){.deferred_tips = defer ? 3 : 0});
		ptah_model_stand(rig->m, 0x1000);
		rig_start(rig);
		near_branch(rig, PTAH_INSN_COND, 0x1004, 0x1008, 0);
		near_branch(rig, PTAH_INSN_JUMP_IND, 0x1008, 0x100a, 0x1308);
		near_branch(rig, PTAH_INSN_COND, 0x130c, 0x1310, 0);
		near_branch(rig, PTAH_INSN_COND, 0x1314, 0x1318, 0x1500);
		near_branch(rig, PTAH_INSN_COND, 0x1504, 0x1508, 0);
		near_branch(rig, PTAH_INSN_JUMP_IND, 0x1508, 0x150b, 0x1100);
		near_branch(rig, PTAH_INSN_COND, 0x1104, 0x1108, 0);
		ptah_model_stand(rig->m, 0x110c);
		transfer(rig, PTAH_MODEL_INTERRUPT, 0xcc00, 0);
		snprintf(text, sizeof(text), PSB_ALL ";MODE.Exec 64-bit;TIP.PGE 0x1000;%s",
			 packets[defer]);
		expect_and_free(rig, text);
	}
}

TEST(long_tnt)
{
	struct rig *rig = new_rig(0);

	ptah_model_choose(rig->m, &(struct ptah_model_choices){.long_tnt = true});
	rig_start(rig);
	for (unsigned i = 0; i < 47 + 8; i++)
		cond(rig, i % 3 ? 0 : IP);
	jump_ind(rig, IP);
	expect_and_free(rig, USER ";TNT-64 TNNTNNTNNTNNTNNTNNTNNTNNTNNTNNTNNTNNTNNTNNTNNTN;"
				  "TNT-64 NTNNTNNT;TIP 0x401000");
}

/* The packets of an interrupt, whose handler is not traced, before the instruction at the address.
 */
#define AT(ip) ";FUP " ip ";TIP.PGD;TIP.PGE " ip

/*
 * choices.mark_loops: a decoder follows the code from one address to the next, so that each way
 * from one to the other is unique. A branch backwards that a packet shows anyway is not marked, nor
 * one forwards, nor one to itself.
 */
TEST(mark_loops)
{
	struct rig *rig = new_rig(0);

	ptah_model_choose(rig->m, &(struct ptah_model_choices){.mark_loops = true});
	rig_start(rig);
	for (unsigned i = 0; i < 2; i++)
		near_branch(rig, PTAH_INSN_JUMP, IP + 8, IP + 10, IP);
	near_branch(rig, PTAH_INSN_JUMP, IP + 2, IP + 4, IP + 8);
	ptah_model_stand(rig->m, IP + 4);
	transfer(rig, PTAH_MODEL_INTERRUPT, 0xcc00, 0);
	transfer(rig, PTAH_MODEL_IRET, IP + 4, 3);
	near_branch(rig, PTAH_INSN_CALL, IP + 8, IP + 13, IP);
	cond(rig, IP + 8);
	near_branch(rig, PTAH_INSN_JUMP, IP + 8, IP + 10, IP);
	jump_ind(rig, IP);
	near_branch(rig, PTAH_INSN_JUMP, IP, IP + 2, IP);
	near_branch(rig, PTAH_INSN_JUMP, IP, IP + 2, IP);
	ptah_model_stand(rig->m, IP);
	transfer(rig, PTAH_MODEL_INTERRUPT, 0xcc00, 0);
	expect_and_free(rig, USER AT("0x401008") AT("0x401000") AT("0x401008") AT("0x401000")
				 AT("0x401004") ";TNT-8 T;TIP 0x401000;FUP 0x401000;"
						"TIP.PGD");
}

TEST(no_tnt)
{
	struct rig *rig = started(PTAH_RTIT_CTL_DIS_TNT);

	cond(rig, IP + 8);
	near_branch(rig, PTAH_INSN_CALL, IP + 8, IP + 13, IP + 0x100);
	near_branch(rig, PTAH_INSN_RETURN, IP + 0x100, IP + 0x101, IP + 13);
	near_branch(rig, PTAH_INSN_RETURN, IP + 13, IP + 14, IP + 0x100);
	expect_and_free(rig, USER ";TIP 0x401100");
}

/* BranchEn 0: no branch packets, but time, PIP and PTW. */
TEST(no_branches)
{
	struct rig *rig = new_rig(OS | PTAH_RTIT_CTL_PTW_EN | PTAH_RTIT_CTL_FUP_ON_PTW);

	rig->ctl &= ~PTAH_RTIT_CTL_BRANCH_EN;
	rig_start(rig);
	cond(rig, IP);
	jump_ind(rig, IP);
	ptah_model_mov_cr3(rig->m, IP + 3, 0x6000);
	ptah_model_tsx(rig->m, IP, IP, true);
	ptah_model_ptwrite(rig->m, IP + 8, IP + 8 + 4, 0x1122334455667788, 8);
	transfer(rig, PTAH_MODEL_INTERRUPT, KERN, 0);
	ptah_model_overflow(rig->m, true);
	jump_ind(rig, IP);
	ptah_model_overflow(rig->m, false);
	rig_stop(rig);
	expect_and_free(rig, "PSB;PIP cr3 0x5000;CBR 30;PSBEND;PIP cr3 0x6000;"
			     "PTW.8 0x1122334455667788 ip;FUP 0x401008;OVF");
}

/* Far transfers, cases 10 to 13 */

TEST(far_branches)
{
	struct rig *rig = started(OS);

	transfer(rig, PTAH_MODEL_FAR, KERN, 0); /* 10e */
	to_mode(rig, PTAH_MODEL_FAR, 0x8000000, PTAH_EXEC_32, CR3);
	to_mode(rig, PTAH_MODEL_FAR, 0x9000, PTAH_EXEC_16, 0x6000); /* a task switch */
	to_mode(rig, PTAH_MODEL_FAR, IP, PTAH_EXEC_64, 0x6000);
	rig_expect(rig, ALL ";TIP 0xffffffff81000000;MODE.Exec 32-bit;TIP 0x8000000;"
			    "PIP cr3 0x6000;MODE.Exec 16-bit;TIP 0x9000;"
			    "MODE.Exec 64-bit;TIP 0x401000");
	rig_free(rig);

	rig = started(0);
	transfer(rig, PTAH_MODEL_FAR, KERN, 0);	    /* 10c */
	transfer(rig, PTAH_MODEL_FAR, KERN + 8, 0); /* 10a */
	transfer(rig, PTAH_MODEL_FAR, IP + 2, 3);   /* 10b */
	expect_and_free(rig, USER ";TIP.PGD;TIP.PGE 0x401002");
}

/*
 * Mode and CR3 change while packets are disabled: reported when they are
 * enabled again, or not at all.
 */
TEST(far_branches_outside)
{
	struct rig *rig = filtered(OS);

	rig_start(rig);
	to_mode(rig, PTAH_MODEL_FAR, OUT, PTAH_EXEC_32, 0x6000);     /* 10d */
	to_mode(rig, PTAH_MODEL_FAR, OUT + 8, PTAH_EXEC_16, 0x7000); /* 10f */
	to_mode(rig, PTAH_MODEL_FAR, IP, PTAH_EXEC_32, 0x7000);	     /* 10b */
	to_mode(rig, PTAH_MODEL_FAR, STOP, PTAH_EXEC_32, 0x7000);
	expect_and_free(rig, ALL ";PIP cr3 0x6000;TIP.PGD 0x600000;PIP cr3 0x7000;"
				 "MODE.Exec 32-bit;TIP.PGE 0x401000;TIP.PGD 0x700000;TraceStop");
}

TEST(interrupts)
{
	static const unsigned kinds[] = {PTAH_MODEL_INTERRUPT, PTAH_MODEL_INT, PTAH_MODEL_EXCEPTION,
					 PTAH_MODEL_ENCLAVE};

	for (unsigned i = 0; i < 4; i++) {
		struct rig *rig = started(0);

		transfer(rig, kinds[i], KERN, 0);      /* c */
		transfer(rig, kinds[i], KERN + 64, 0); /* a */
		transfer(rig, kinds[i], IP + 2, 3);    /* b */
		rig_expect(rig, USER ";FUP 0x401000;TIP.PGD;TIP.PGE 0x401002");
		rig_free(rig);

		rig = filtered(OS);
		rig_start(rig);
		to_mode(rig, kinds[i], IP + 8, PTAH_EXEC_32, 0x6000);  /* e */
		to_mode(rig, kinds[i], OUT, PTAH_EXEC_32, 0x7000);     /* d */
		to_mode(rig, kinds[i], OUT + 8, PTAH_EXEC_32, 0x8000); /* f */
		to_mode(rig, kinds[i], IP, PTAH_EXEC_32, 0x8000);      /* b */
		to_mode(rig, kinds[i], STOP, PTAH_EXEC_32, 0x8000);
		rig_expect(rig, ALL ";FUP 0x401000;PIP cr3 0x6000;MODE.Exec 32-bit;TIP 0x401008;"
				    "FUP 0x401008;PIP cr3 0x7000;TIP.PGD 0x600000;"
				    "PIP cr3 0x8000;TIP.PGE 0x401000;"
				    "FUP 0x401000;TIP.PGD 0x700000;TraceStop");
		rig_free(rig);
	}
}

/* A mode that changes and changes back while packets are disabled is not reported. */
TEST(mode_is_told_once)
{
	struct rig *rig = started(0);

	transfer(rig, PTAH_MODEL_FAR, KERN, 0);
	rig->m->psb_due = true;
	jump(rig, KERN);
	transfer(rig, PTAH_MODEL_FAR, IP, 3);
	expect_and_free(rig, USER ";TIP.PGD;PSB;CBR 30;PSBEND;MODE.Exec 64-bit;TIP.PGE 0x401000");
}

TEST(enclaves)
{
	struct rig *rig = started(OS);
	struct ptah_model_transfer t = transfer_of(rig, PTAH_MODEL_ENCLAVE, IP + 0x500, 3);

	t.after.enclave = true;
	ptah_model_transfer(rig->m, &t); /* 20c */
	jump_ind(rig, IP + 0x600);
	t = transfer_of(rig, PTAH_MODEL_ENCLAVE, IP + 8, 3);
	t.after.enclave = false;
	ptah_model_transfer(rig->m, &t); /* 21b */
	expect_and_free(rig, ALL ";FUP 0x401000;TIP.PGD;TIP.PGE 0x401008");
}

/* SMM and VMX, cases 14 to 17 */

TEST(smi)
{
	struct rig *rig = started(OS);

	assert_int_equal(ptah_model_smi(rig->m), PTAH_OK); /* 14b */
	assert_int_equal(ptah_model_rsm(rig->m), PTAH_OK); /* 15c */
	expect_and_free(rig, ALL ";FUP 0x401000;TIP.PGD;CBR 30;MODE.Exec 64-bit;"
				 "TIP.PGE.48 0x401000");
}

static void vm(struct rig *rig, bool entry, uint64_t to, uint64_t cr3)
{
	struct ptah_model_transfer t =
	    transfer_of(rig, entry ? PTAH_MODEL_VMENTRY : PTAH_MODEL_VMEXIT, to, 0);

	t.after.cr3 = cr3;
	t.reason = 0x30;
	t.qualification = 7;
	ptah_model_vm_target(rig->m, &t);
}

TEST(vm_transitions)
{
	struct rig *rig = started(OS);
	struct ptah_model_vmcs vmcs = {0};

	transfer(rig, PTAH_MODEL_FAR, KERN, 0);
	assert_int_equal(ptah_model_vmxon(rig->m), PTAH_OK);
	ptah_model_vmptrld(rig->m, KERN + 4, 0x9000);
	vm(rig, true, 0x8000, 0x6000);
	assert_int_equal(ptah_model_vm_entry(rig->m, &vmcs), PTAH_OK); /* 17i */
	ptah_model_mov_cr3(rig->m, 0x8003, 0x7000);
	vm(rig, false, KERN + 64, CR3);
	assert_int_equal(ptah_model_vm_exit(rig->m, &vmcs), PTAH_OK); /* 16h */
	vmcs.conceal = true;
	vm(rig, true, 0x8000, 0x6000);
	assert_int_equal(ptah_model_vm_entry(rig->m, &vmcs), PTAH_OK);
	expect_and_free(rig, ALL ";TIP 0xffffffff81000000;VMCS base 0x9000;"
				 "PIP cr3 0x6000 nr;TIP 0x8000;PIP cr3 0x7000 nr;"
				 "FUP 0x8003;PIP cr3 0x5000;TIP 0xffffffff81000040;TIP 0x8000");
}

/*
 * Host-only tracing, stopped and started by the MSR lists. 17g: no FUP, except
 * by erratum SKD022.
 */
TEST(vm_transitions_of_the_host_alone)
{
	for (unsigned erratum = 0; erratum < 2; erratum++) {
		struct rig *rig = new_rig(OS);
		struct ptah_model_msr off = {PTAH_IA32_RTIT_CTL, 0}, on = {PTAH_IA32_RTIT_CTL, 0};
		struct ptah_model_vmcs vmcs = {.conceal = true,
					       .entry_load = &off,
					       .entry_loads = 1,
					       .exit_load = &on,
					       .exit_loads = 1};
		struct ptah_model_faults faults = {.errata = erratum << PTAH_ERRATUM_SKD022};

		ptah_model_set_faults(rig->m, &faults);
		rig->m->program.cpl = 0;
		assert_int_equal(ptah_model_vmxon(rig->m), PTAH_OK);
		rig_start(rig);
		off.value = rig->ctl & ~PTAH_RTIT_CTL_TRACE_EN;
		on.value = rig->ctl;
		vm(rig, true, 0x8000, 0x6000);
		assert_int_equal(ptah_model_vm_entry(rig->m, &vmcs), PTAH_OK);
		vm(rig, false, IP + 64, CR3);
		assert_int_equal(ptah_model_vm_exit(rig->m, &vmcs), PTAH_OK);
		expect_and_free(rig, erratum
					 ? "PSB;PIP cr3 0x5000;VMCS base 0xffffffffff000;CBR 30;"
					   "MODE.TSX commit;PSBEND" ON ";FUP 0x401000;TIP.PGD;"
					   "CBR 30;MODE.Exec 64-bit;TIP.PGE.48 0x401040"
					 : "PSB;PIP cr3 0x5000;VMCS base 0xffffffffff000;CBR 30;"
					   "MODE.TSX commit;PSBEND" ON ";TIP.PGD;"
					   "CBR 30;MODE.Exec 64-bit;TIP.PGE.48 0x401040");
	}
}

/* 16f: guest-only tracing ends with the guest's address. */
TEST(vm_exit_ends_the_trace)
{
	struct rig *rig = new_rig(OS);
	struct ptah_model_msr off = {PTAH_IA32_RTIT_CTL, 0};
	struct ptah_model_vmcs vmcs = {.conceal = true, .exit_load = &off, .exit_loads = 1};

	assert_int_equal(ptah_model_vmxon(rig->m), PTAH_OK);
	assert_int_equal(ptah_model_vm_entry(rig->m, &vmcs), PTAH_OK);
	rig_start(rig);
	vm(rig, false, KERN, CR3);
	assert_int_equal(ptah_model_vm_exit(rig->m, &vmcs), PTAH_OK);
	expect_and_free(rig, ALL ";FUP 0x401000;TIP.PGD");
}

/* TSX, cases 26 to 28 */

TEST(transactions)
{
	struct rig *rig = filtered(0);

	rig_start(rig);
	ptah_model_tsx(rig->m, IP, IP, true);		 /* 26e */
	ptah_model_tsx(rig->m, IP + 8, IP + 8, true);	 /* 26d: nested */
	ptah_model_tsx(rig->m, IP + 16, IP + 16, false); /* 27e */
	ptah_model_tsx(rig->m, IP + 20, IP + 20, true);
	ptah_model_stand(rig->m, IP + 24);
	transfer(rig, PTAH_MODEL_TSX_ABORT, IP + 0x80, 3); /* 28d */
	ptah_model_tsx(rig->m, IP + 0x80, IP + 0x80, true);
	transfer(rig, PTAH_MODEL_TSX_ABORT, OUT, 3); /* 28c */
	ptah_model_tsx(rig->m, OUT, OUT, true);	     /* while FilterEn is 0: no FUP */
	transfer(rig, PTAH_MODEL_TSX_ABORT, IP, 3);  /* 28b */
	expect_and_free(rig, USER ";MODE.TSX begin;FUP 0x401000;MODE.TSX commit;FUP 0x401010;"
				  "MODE.TSX begin;FUP 0x401014;MODE.TSX abort;FUP 0x401018;"
				  "TIP 0x401080;MODE.TSX begin;FUP 0x401080;MODE.TSX abort;"
				  "FUP 0x401080;TIP.PGD 0x600000;MODE.TSX begin;MODE.TSX abort;"
				  "TIP.PGE 0x401000");
}

/* INIT and SIPI, cases 30 to 32 */

TEST(init)
{
	struct rig *rig = started(OS);
	struct ptah_model_transfer t = transfer_of(rig, PTAH_MODEL_INIT, 0xfffffff0, 0);

	t.after.cr3 = 0;
	t.after.mode = PTAH_EXEC_16;
	ptah_model_transfer(rig->m, &t); /* 30f */
	rig_expect(rig, ALL ";FUP 0x401000;PIP cr3 0;MODE.Exec 16-bit;TIP 0xfffffff0");
	rig_free(rig);

	rig = started(OS);
	t.kind = PTAH_MODEL_INIT_WAIT;
	ptah_model_transfer(rig->m, &t); /* 31b */
	rig->m->psb_due = true;		 /* the PSB waits until the TIP was sent */
	model_trace_attend(rig->m, IP);
	t.kind = PTAH_MODEL_SIPI;
	t.to = 0x9000;
	ptah_model_transfer(rig->m, &t); /* 32f */
	expect_and_free(rig, ALL ";FUP 0x401000;PIP cr3 0;MODE.Exec 16-bit;TIP 0x9000;"
				 "PSB;PIP cr3 0;CBR 30;MODE.TSX commit;MODE.Exec 16-bit;"
				 "FUP 0x9000;PSBEND");
}

/* PTWRITE, power */

TEST(ptwrite)
{
	struct rig *rig = filtered(PTAH_RTIT_CTL_PTW_EN);

	rig_start(rig);
	cond(rig, 0);
	ptah_model_ptwrite(rig->m, IP, IP + 4, 0x1122334455667788, 4); /* 16.24d */
	jump(rig, OUT);
	ptah_model_ptwrite(rig->m, OUT, OUT + 4, 1, 8); /* 16.24b */
	rig_expect(rig, USER ";TNT N;PTW.4 0x55667788;TIP.PGD 0x600000");
	rig_free(rig);

	rig = started(PTAH_RTIT_CTL_PTW_EN | PTAH_RTIT_CTL_FUP_ON_PTW);
	ptah_model_ptwrite(rig->m, IP + 8, IP + 8 + 4, 7, 8); /* 16.24e */
	expect_and_free(rig, USER ";PTW.8 7 ip;FUP 0x401008");
}

TEST(power)
{
	const uint64_t ctl = PTAH_RTIT_CTL_TSC_EN;
	struct ptah_model_sleep sleep = {
	    .ip = IP, .mwait = true, .hints = 0x20, .ext = 1, .state = 2, .sub_state = 1};
	struct ptah_model_wake wake = {.ticks = 100, .last = 2, .deepest = 3, .interrupt = true};
	struct rig *rig = started(ctl | PTAH_RTIT_CTL_PWR_EVT_EN);

	ptah_model_sleep(rig->m, &sleep);	  /* 16.4b */
	ptah_model_wake(rig->m, &wake);		  /* 16.18 */
	ptah_model_frequency(rig->m, IP + 4, 20); /* 16.16b */
	rig->m->program.cpl = 0;
	transfer(rig, PTAH_MODEL_FAR, KERN, 0);
	ptah_model_sleep(rig->m, &sleep);	/* 16.4a */
	ptah_model_frequency(rig->m, KERN, 30); /* 16.16a */
	rig_expect(rig, "PSB;TSC 0;CBR 30;MODE.TSX commit;PSBEND" ON
			";MWAIT hints 0x20 ext 1;PWRE state 2 sub 1;EXSTOP ip;FUP 0x401000;"
			"TSC 100;CBR 30;PWRX last 2 deepest 3 interrupt;"
			"EXSTOP ip;FUP 0x401004;TSC 100;CBR 20;TIP.PGD;"
			"PWRE state 2 sub 1;EXSTOP;EXSTOP;TSC 100;CBR 30");
	rig_free(rig);

	rig = started(ctl); /* 33b */
	ptah_model_sleep(rig->m, &sleep);
	ptah_model_wake(rig->m, &wake);
	ptah_model_frequency(rig->m, IP + 4, 20);
	expect_and_free(rig, "PSB;TSC 0;CBR 30;MODE.TSX commit;PSBEND" ON
			     ";TSC 100;CBR 30;TSC 100;CBR 20");
}

TEST(hardware_duty_cycling)
{
	struct rig *rig = started(PTAH_RTIT_CTL_PWR_EVT_EN); /* 16.14b */

	ptah_model_sleep(rig->m,
			 &(struct ptah_model_sleep){.ip = IP, .hardware = true, .state = 6});
	ptah_model_wake(rig->m,
			&(struct ptah_model_wake){.last = 6, .deepest = 6, .autonomous = true});
	expect_and_free(rig, USER ";PWRE state 6 hw;EXSTOP ip;FUP 0x401000;CBR 30;"
				  "PWRX last 6 deepest 6 autonomous");
}

/* Event Trace */

TEST(events)
{
	struct rig *rig = started(OS | PTAH_RTIT_CTL_EVENT_EN);
	struct ptah_model_transfer t = transfer_of(rig, PTAH_MODEL_EXCEPTION, KERN, 0);
	struct ptah_model_vmcs vmcs = {0};

	t.page_fault = true;
	t.address = 0xdeadbeef;
	ptah_model_transfer(rig->m, &t);
	transfer(rig, PTAH_MODEL_IRET, IP, 3);
	transfer(rig, PTAH_MODEL_INTERRUPT, KERN, 0);
	transfer(rig, PTAH_MODEL_UINTR, IP, 3);
	transfer(rig, PTAH_MODEL_UIRET, KERN, 0);
	assert_int_equal(ptah_model_vmxon(rig->m), PTAH_OK);
	vm(rig, true, 0x8000, 0x6000);
	assert_int_equal(ptah_model_vm_entry(rig->m, &vmcs), PTAH_OK);
	vm(rig, false, KERN, CR3);
	assert_int_equal(ptah_model_vm_exit(rig->m, &vmcs), PTAH_OK);
	ptah_model_interrupt_flag(rig->m, KERN + 1, true);
	ptah_model_interrupt_flag(rig->m, KERN + 2, true);
	ptah_model_sleep(rig->m, &(struct ptah_model_sleep){.ip = KERN + 2, .shutdown = true});
	expect_and_free(
	    rig, ALL ";EVD type 0 0xdeadbeef;CFE type 1 vector 14;FUP 0x401000;"
		     "TIP 0xffffffff81000000;CFE type 2 vector 14 ip;FUP 0xffffffff81000000;"
		     "TIP 0x401000;CFE type 1 vector 14;FUP 0x401000;TIP 0xffffffff81000000;"
		     "CFE type 12 vector 14;FUP 0xffffffff81000000;TIP 0x401000;"
		     "CFE type 13 vector 14 ip;FUP 0x401000;TIP 0xffffffff81000000;"
		     "CFE type 7 vector 14 ip;FUP 0xffffffff81000000;PIP cr3 0x6000 nr;TIP 0x8000;"
		     "EVD type 1 7;EVD type 2 0x30;CFE type 8 vector 14;FUP 0x8000;PIP cr3 0x5000;"
		     "TIP 0xffffffff81000000;MODE.Exec 64-bit if;FUP 0xffffffff81000001;"
		     "CFE type 10 ip;FUP 0xffffffff81000002");
}

TEST(events_without_branches)
{
	struct rig *rig = new_rig(PTAH_RTIT_CTL_EVENT_EN);

	rig->ctl &= ~PTAH_RTIT_CTL_BRANCH_EN;
	rig_start(rig);
	transfer(rig, PTAH_MODEL_INTERRUPT, KERN, 0);
	transfer(rig, PTAH_MODEL_IRET, IP, 3); /* from code that must not be visible */
	expect_and_free(rig, "PSB;CBR 30;PSBEND;CFE type 1 vector 14 ip;FUP 0x401000;"
			     "CFE type 2 vector 14");
}

TEST(events_of_smm)
{
	struct rig *rig = started(OS | PTAH_RTIT_CTL_EVENT_EN);

	assert_int_equal(ptah_model_smi(rig->m), PTAH_OK);
	assert_int_equal(ptah_model_rsm(rig->m), PTAH_OK);
	expect_and_free(rig, ALL ";CFE type 3;FUP 0x401000;TIP.PGD;CBR 30;CFE type 4;"
				 "MODE.Exec 64-bit;TIP.PGE.48 0x401000");
}

/* Other packets */

TEST(model_specific)
{
	static const uint8_t ids[2] = {0, 1};
	static const uint64_t values[2] = {0x11, 0x22};
	struct ptah_model_pebs pebs = {.type = 4,
				       .item_size = 8,
				       .has_ip = true,
				       .ip = IP + 8,
				       .n = 2,
				       .ids = ids,
				       .values = values};
	struct rig *rig = started(0);

	cond(rig, 0);
	ptah_model_mnt(rig->m, 0x1234);
	ptah_model_pebs(rig->m, &pebs);
	ptah_model_trigger(rig->m, IP + 9, 5, false, 0);
	expect_and_free(rig, USER ";TNT N;MNT 0x1234;BBP type 4 size 8;BIP id 0 0x11;"
				  "BIP id 1 0x22;BEP ip;FUP 0x401008;TRIG trbv 5 icnt 0 ip;"
				  "FUP 0x401009");
}

/* Time */

/* SDM Table "An Illustrative CYC Packet Example": thresholds 0, 16, 32, 64. */
TEST(cycle_thresholds)
{
	static const struct {
		unsigned at;
		bool cr3;
	} steps[] = {{0, 0}, {9, 0}, {15, 0}, {30, 0}, {38, 1}, {46, 0}, {64, 0}, {71, 0}};
	/* Where the table has a CYC, by threshold. It begins with a CYC of unknown size. */
	static const uint8_t has[4] = {0xff, 0x69, 0x91, 0x41};

	for (unsigned i = 0; i < 4; i++) {
		struct rig *rig = new_rig(OS | PTAH_RTIT_CTL_CYC_EN |
					  (uint64_t)(i ? 4 + i : 0) << PTAH_RTIT_CTL_CYC_THRESH);
		unsigned told = 0;
		char text[512] = ALL;

		rig_start(rig);
		ptah_model_pass(rig->m, 100);
		for (unsigned k = 0; k < 8; k++) {
			size_t n;

			if (k)
				ptah_model_pass(rig->m, steps[k].at - steps[k - 1].at);
			if (has[i] >> k & 1 && k) {
				n = strlen(text);
				snprintf(text + n, sizeof(text) - n, ";CYC %u", steps[k].at - told);
				told = steps[k].at;
			} else if (!k) {
				strcat(text, ";CYC 100");
			}
			if (steps[k].cr3)
				ptah_model_mov_cr3(rig->m, IP, 0x6000);
			else
				jump_ind(rig, IP);
			strcat(text, steps[k].cr3 ? ";PIP cr3 0x6000" : ";TIP 0x401000");
		}
		expect_and_free(rig, text);
	}
}

/* SDM "Example of CYC in the Presence of Multi-Packet Operations", its branches. */
TEST(cycles_of_outcomes)
{
	struct rig *rig = started(OS | PTAH_RTIT_CTL_CYC_EN);

	near_branch(rig, PTAH_INSN_CALL, IP, IP + 5, IP + 0x100);
	ptah_model_pass(rig->m, 7);
	cond(rig, 0);
	ptah_model_pass(rig->m, 2);
	near_branch(rig, PTAH_INSN_RETURN, IP + 0x102, IP + 0x103, IP + 5);
	ptah_model_pass(rig->m, 6);
	cond(rig, IP + 0x40);
	ptah_model_pass(rig->m, 1);
	jump_ind(rig, IP + 0x80);
	ptah_model_pass(rig->m, 3);
	cond(rig, 0);
	ptah_model_pass(rig->m, 30);
	transfer(rig, PTAH_MODEL_INT, KERN, 0);
	expect_and_free(rig, ALL ";CYC 7;TNT NTT;CYC 9;TIP 0x401080;CYC 3;TNT N;FUP 0x401082;"
				 "CYC 30;TIP 0xffffffff81000000");
}

/* The cycle count starts again with TriggerEn; time passes while tracing is off. */
TEST(time_between_slices)
{
	struct rig *rig =
	    started(PTAH_RTIT_CTL_TSC_EN | PTAH_RTIT_CTL_MTC_EN | PTAH_RTIT_CTL_CYC_EN);
	size_t n;

	rig->m->clock.n = rig->m->clock.d = 1;
	rig->m->clock.nominal_ratio = rig->m->clock.ratio = RATIO;
	ptah_model_set_tsc(rig->m, 0x1000);
	rig_stop(rig);
	ptah_model_pass(rig->m, 0x200);
	n = rig_bytes(rig);
	rig_start(rig);
	ptah_model_pass(rig->m, 1); /* an MTC each crystal tick */
	cond(rig, 0);
	ptah_model_pass(rig->m, 2);
	rig_expect_from(
	    rig, n,
	    "TSC 0x1200;TMA ctc 0x1200 fc 0;CBR 30;MODE.Exec 64-bit;"
	    "TIP.PGE.48 0x401000;CYC 1;MTC ctc 1;TNT N;CYC 1;MTC ctc 2;CYC 1;MTC ctc 3");
	rig_free(rig);
}

/* Internal buffer overflow */

TEST(overflow_while_enabled)
{
	struct rig *rig = started(OS);

	near_branch(rig, PTAH_INSN_CALL, IP, IP + 5, IP + 0x100);
	cond(rig, 0);
	ptah_model_overflow(rig->m, true);
	jump_ind(rig, IP + 0x200);
	cond(rig, IP + 0x300);
	ptah_model_overflow(rig->m, false);
	near_branch(rig, PTAH_INSN_RETURN, IP + 0x300, IP + 0x301, IP + 5);
	expect_and_free(rig, ALL ";OVF;FUP.48 0x401300;TIP 0x401005");
}

TEST(overflow_while_disabled)
{
	struct rig *rig = started(0);

	ptah_model_overflow(rig->m, true);
	transfer(rig, PTAH_MODEL_FAR, KERN, 0);
	ptah_model_overflow(rig->m, false);
	transfer(rig, PTAH_MODEL_FAR, IP, 3);
	expect_and_free(rig, USER ";OVF;TIP.PGE.48 0x401000");
}

/* A PSB+ reports the state that changed in the overflow. */
TEST(overflow_loses_state)
{
	struct rig *rig = started(OS);

	ptah_model_overflow(rig->m, true);
	to_mode(rig, PTAH_MODEL_FAR, 0x8000, PTAH_EXEC_32, 0x6000);
	ptah_model_overflow(rig->m, false);
	jump_ind(rig, 0x9000);
	expect_and_free(
	    rig,
	    ALL ";OVF;FUP.48 0x8000;PSB;PIP cr3 0x6000;CBR 30;MODE.TSX commit;MODE.Exec 32-bit;"
		"FUP 0x8000;PSBEND;TIP 0x9000");
}

/* SDM "TraceStop": it is signalled after the overflow has resolved; the TIP.PGD is lost. */
TEST(overflow_and_trace_stop)
{
	struct rig *rig = filtered(0);

	rig_start(rig);
	ptah_model_overflow(rig->m, true);
	jump(rig, STOP);
	assert_true(rig_status(rig) & PTAH_RTIT_STATUS_STOPPED);
	ptah_model_overflow(rig->m, false);
	expect_and_free(rig, USER ";OVF;TraceStop");
}

TEST(overflow_and_time)
{
	struct rig *rig = started(PTAH_RTIT_CTL_CYC_EN | PTAH_RTIT_CTL_MTC_EN);

	rig->m->clock.n = rig->m->clock.d = 1;
	rig->m->clock.nominal_ratio = rig->m->clock.ratio = RATIO;
	ptah_model_set_tsc(rig->m, 0);
	ptah_model_overflow(rig->m, true);
	ptah_model_pass(rig->m, 20);
	jump_ind(rig, IP);
	ptah_model_pass(rig->m, 20);
	ptah_model_overflow(rig->m, false);
	ptah_model_pass(rig->m, 1);
	expect_and_free(rig, USER ";CYC 40;OVF;FUP.48 0x401000;CYC 1;MTC ctc 41");
}

TEST(overflow_until_the_end)
{
	struct rig *rig = started(0);

	ptah_model_overflow(rig->m, true);
	jump_ind(rig, IP);
	rig_stop(rig);
	expect_and_free(rig, USER ";OVF");
}

TEST(overflow_by_fault)
{
	struct rig *rig = new_rig(0);
	struct ptah_model_faults faults = {.overflow_after = 10, .overflow_events = 2};

	ptah_model_set_faults(rig->m, &faults);
	rig_start(rig); /* more than ten bytes: packets are lost from here */
	jump_ind(rig, IP + 0x10);
	jump_ind(rig, IP + 0x20);
	jump_ind(rig, IP + 0x30); /* 3 bytes */
	jump_ind(rig, IP + 0x40);
	jump_ind(rig, IP + 0x50);
	jump_ind(rig, IP + 0x60); /* 12 */
	jump_ind(rig, IP + 0x70);
	jump_ind(rig, IP + 0x80);
	expect_and_free(rig, USER ";OVF;FUP.48 0x401020;TIP 0x401030;TIP 0x401040;TIP 0x401050;"
				  "TIP 0x401060;OVF;FUP.48 0x401080");
}

/* TraceStop wins where ranges overlap; enabling inside one; ContextEn must be 1. */
TEST(trace_stop)
{
	struct rig *rig = new_rig(0);

	set_range(rig, 0, PTAH_RANGE_FILTER, IP, IP + 0xfff);
	set_range(rig, 1, PTAH_RANGE_STOP, IP + 0x800, IP + 0x8ff);
	rig_start(rig);
	transfer(rig, PTAH_MODEL_FAR, IP + 0x800, 0); /* not in context */
	assert_false(rig_status(rig) & PTAH_RTIT_STATUS_STOPPED);
	transfer(rig, PTAH_MODEL_FAR, IP, 3);
	jump_ind(rig, IP + 0x8ff);
	rig_stop(rig);
	assert_true(rig_status(rig) & PTAH_RTIT_STATUS_STOPPED);
	rig_expect(rig, USER ";TIP.PGD;TIP.PGE 0x401000;TIP.PGD 0x4018ff;TraceStop");
	rig_free(rig);

	rig = new_rig(0);
	set_range(rig, 0, PTAH_RANGE_STOP, IP, IP);
	rig_start(rig);
	assert_true(rig_status(rig) & PTAH_RTIT_STATUS_STOPPED);
	expect_and_free(rig, PSB_USER ";TraceStop");
}

/* Errata, each as errata.def describes it */

static struct rig *faulty(unsigned erratum, uint64_t ctl)
{
	struct rig *rig = filtered(ctl);
	struct ptah_model_faults faults = {.errata = 1u << erratum};

	ptah_model_set_faults(rig->m, &faults);
	rig_start(rig);
	return rig;
}

TEST(errata)
{
	struct rig *rig = faulty(PTAH_ERRATUM_BDM70, 0);

	expect_and_free(rig, "PSB;CBR 30;MODE.TSX commit;MODE.Exec 64-bit;FUP 0x401000;PSBEND;"
			     "MODE.Exec 64-bit;TIP.PGE 0x401000");

	rig = faulty(PTAH_ERRATUM_BDM64, 0);
	ptah_model_tsx(rig->m, IP, IP, true);
	jump_ind(rig, IP + 0x100);
	transfer(rig, PTAH_MODEL_TSX_ABORT, IP + 0x10, 3);
	expect_and_free(rig, USER ";MODE.TSX begin;FUP 0x401000;TIP 0x401140;MODE.TSX abort;"
				  "FUP 0x401100;TIP 0x401010");

	rig = faulty(PTAH_ERRATUM_SKD007, PTAH_RTIT_CTL_CYC_EN);
	ptah_model_overflow(rig->m, true);
	ptah_model_pass(rig->m, 100);
	ptah_model_overflow(rig->m, false);
	expect_and_free(rig, USER ";.bytes 27;OVF;FUP.48 0x401000");

	rig = faulty(PTAH_ERRATUM_SKD010, 0);
	ptah_model_overflow(rig->m, true);
	jump_ind(rig, IP + 0x100);
	ptah_model_overflow(rig->m, false);
	jump_ind(rig, IP + 0x200);
	expect_and_free(rig, USER ";OVF;TIP.48 0x401200");

	rig = faulty(PTAH_ERRATUM_SKL014, 0);
	jump(rig, OUT);
	expect_and_free(rig, USER ";TIP.PGD");

	rig = faulty(PTAH_ERRATUM_APL12, 0);
	ptah_model_overflow(rig->m, true);
	jump(rig, OUT);
	ptah_model_overflow(rig->m, false);
	expect_and_free(rig, USER ";OVF;FUP.48 0x600000");

	rig = faulty(PTAH_ERRATUM_APL11, 0);
	ptah_model_overflow(rig->m, true);
	jump(rig, OUT);
	ptah_model_overflow(rig->m, false);
	expect_and_free(rig, USER ";OVF;TIP.PGD");
}

TEST(errata_of_time)
{
	struct rig *rig = faulty(PTAH_ERRATUM_SKL168, PTAH_RTIT_CTL_CYC_EN);

	ptah_model_pass(rig->m, 9);
	rig->m->psb_due = true;
	jump(rig, IP);
	expect_and_free(rig,
			USER ";PSB;CBR 30;MODE.TSX commit;MODE.Exec 64-bit;FUP 0x401000;PSBEND");

	rig = faulty(PTAH_ERRATUM_SKZ84, PTAH_RTIT_CTL_TSC_EN | PTAH_RTIT_CTL_MTC_EN);
	expect_and_free(rig, "PSB;TSC 0;.bytes 02 73 00 00 5a 00 00 00;CBR 30;MODE.TSX commit;"
			     "PSBEND" ON);
}

/* The distance between PSBs */

static size_t count_psbs(const struct rig *rig, size_t n, size_t *widest)
{
	const uint8_t *p = rig->memory, *last = p, *end = rig->memory + n;
	size_t count = 0;

	*widest = 0;
	while ((p = ptah_packet_find_psb(p, end))) {
		if ((size_t)(p - last) > *widest)
			*widest = (size_t)(p - last);
		last = p++;
		count++;
	}
	return count;
}

TEST(psb_cadence)
{
	for (unsigned freq = 0; freq < 4; freq++) {
		struct rig *rig = started((uint64_t)freq << PTAH_RTIT_CTL_PSB_FREQ);
		const size_t period = (size_t)2048 << freq;
		size_t n, count, widest;

		for (unsigned i = 0; i < 50000; i++)
			jump_ind(rig, IP + i % 7 * 16);
		n = rig_bytes(rig);
		count = count_psbs(rig, n, &widest);
		assert_in_range(count, n / period, n / period + 1);
		assert_in_range(widest, period - 64, period + 64);
		rig_free(rig);
	}
}

/* A PSB that was due and not sent begins the next slice. */
TEST(psb_that_is_late)
{
	struct rig *rig = started(0);
	size_t n;

	while (!rig->m->psb_due) {
		*rig->m->g.out++ = 0; /* PAD */
		model_output_settle(rig->m);
	}
	rig_stop(rig);
	n = rig_bytes(rig);
	assert_int_equal(rig_status(rig) >> PTAH_RTIT_STATUS_PACKET_BYTECNT, 0);
	rig_start(rig);
	rig_expect_from(rig, n, USER);
	rig_free(rig);
}

/* The fast path of a software recorder: generator.h alone */

struct fast {
	struct rig *slow, *fast;
	uint64_t seed;
};

static unsigned pick(struct fast *f, unsigned n)
{
	f->seed = f->seed * UINT64_C(6364136223846793005) + 1;
	return (unsigned)(f->seed >> 33) % n;
}

static void fast_branch(struct ptah_model *m, const struct ptah_model_branch *b)
{
	struct ptah_generator *g = &m->g;

	assert_true(model_trace_is_plain(m));
	switch (b->kind) {
	case PTAH_INSN_COND:
		generator_tnt(g, b->taken);
		break;
	case PTAH_INSN_CALL:
		if (b->to != b->end)
			generator_call(g, b->end);
		break;
	case PTAH_INSN_CALL_IND:
		generator_call(g, b->end);
		generator_tip(g, b->to);
		break;
	case PTAH_INSN_JUMP_IND:
		generator_tip(g, b->to);
		break;
	case PTAH_INSN_RETURN:
		generator_return(g, b->to);
		break;
	default:
		break;
	}
	if (g->out >= m->limit)
		model_trace_attend(m, b->kind == PTAH_INSN_COND && !b->taken ? b->end : b->to);
}

TEST(fast_path)
{
	for (unsigned seed = 0; seed < 16; seed++) {
		struct fast f = {.seed = seed};
		uint64_t stack[256] = {0};
		unsigned depth = 0;
		size_t n;

		for (unsigned i = 0; i < 2; i++) {
			struct rig *rig = new_rig(seed & 1 ? PTAH_RTIT_CTL_DIS_RETC : OS);

			ptah_model_choose(rig->m,
					  &(struct ptah_model_choices){.long_tnt = seed & 2});
			rig_start(rig);
			*(i ? &f.fast : &f.slow) = rig;
		}
		for (unsigned i = 0; i < 20000; i++) {
			struct ptah_model_branch b = {.ip = IP + pick(&f, 0x10000),
						      .to = IP + pick(&f, 0x10000) * 64,
						      .kind =
							  (uint8_t)(PTAH_INSN_COND + pick(&f, 6)),
						      .taken = pick(&f, 2)};

			b.end = b.ip + 5;
			if (b.kind == PTAH_INSN_RETURN && depth && pick(&f, 8))
				b.to = stack[--depth];
			else if (b.kind == PTAH_INSN_CALL || b.kind == PTAH_INSN_CALL_IND)
				stack[depth = (depth + 1) % 256] = b.end;
			if (b.kind == PTAH_INSN_CALL && !pick(&f, 8))
				b.to = b.end;
			ptah_model_branch(f.slow->m, &b);
			fast_branch(f.fast->m, &b);
		}
		rig_stop(f.slow);
		f.fast->m->program.ip = f.slow->m->program.ip;
		rig_stop(f.fast);
		n = rig_bytes(f.slow);
		assert_true(n > 4096);
		assert_int_equal(rig_bytes(f.fast), n);
		assert_memory_equal(f.slow->memory, f.fast->memory, n);
		rig_free(f.slow);
		rig_free(f.fast);
	}
}
