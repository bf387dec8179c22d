/* SPDX-License-Identifier: MIT */
/* Random valid packets, for tests that compare two ways of reading them. */
#ifndef PTAH_TESTS_PACKET_STREAM_H
#define PTAH_TESTS_PACKET_STREAM_H

#include <ptah/packet.h>

#include <string.h>

struct stream {
	uint64_t seed; /* not 0 */
	uint8_t *bytes;
	size_t size, capacity;
	/* The packets, each 1 << enum ptah_packet_type, that are to be in it. */
	uint64_t types;
};

static inline uint64_t stream_random(struct stream *s)
{
	s->seed ^= s->seed << 13;
	s->seed ^= s->seed >> 7;
	s->seed ^= s->seed << 17;
	return s->seed;
}

/* Mostly small numbers, sometimes `bits` wide. */
static inline uint64_t stream_bits(struct stream *s, unsigned bits)
{
	unsigned n = (unsigned)(stream_random(s) % bits) + 1;

	return stream_random(s) >> (64 - n);
}

static inline void stream_fill_ip(struct stream *s, struct ptah_packet *p)
{
	static const uint8_t forms[] = {0, 1, 2, 3, 4, 6}, bits[] = {0, 16, 32, 48, 48, 64};
	unsigned i = (unsigned)(stream_random(s) % sizeof(forms));

	p->u.ip.ipc = forms[i];
	p->u.ip.ip = bits[i] ? stream_bits(s, bits[i]) : 0;
}

static inline void stream_fill_event(struct stream *s, struct ptah_packet *p)
{
	switch (p->type) {
	case PTAH_PACKET_PWRE:
		p->u.pwre.state = (uint8_t)stream_bits(s, 4);
		p->u.pwre.sub_state = (uint8_t)stream_bits(s, 4);
		p->u.pwre.hw = stream_random(s) & 1;
		break;
	case PTAH_PACKET_PWRX:
		p->u.pwrx.last = (uint8_t)stream_bits(s, 4);
		p->u.pwrx.deepest = (uint8_t)stream_bits(s, 4);
		p->u.pwrx.interrupt = stream_random(s) & 1;
		p->u.pwrx.store = stream_random(s) & 1;
		p->u.pwrx.autonomous = stream_random(s) & 1;
		break;
	case PTAH_PACKET_CFE:
		p->u.cfe.type = (uint8_t)stream_bits(s, 5);
		p->u.cfe.vector = (uint8_t)stream_bits(s, 8);
		p->u.cfe.ip = stream_random(s) & 1;
		break;
	case PTAH_PACKET_EVD:
		p->u.evd.type = (uint8_t)stream_bits(s, 6);
		p->u.evd.payload = stream_bits(s, 64);
		break;
	case PTAH_PACKET_BBP:
		p->u.bbp.type = (uint8_t)stream_bits(s, 5);
		p->u.bbp.item_size = stream_random(s) & 1 ? 4 : 8;
		break;
	case PTAH_PACKET_BIP: /* outside a block a TNT and what may come */
		p->u.bip.id = (uint8_t)stream_bits(s, 5);
		p->u.bip.item_size = stream_random(s) & 1 ? 4 : 8;
		p->u.bip.payload = stream_bits(s, 8 * p->u.bip.item_size);
		break;
	case PTAH_PACKET_BEP:
		p->u.bep.ip = stream_random(s) & 1;
		break;
	case PTAH_PACKET_TRIG:
		p->u.trig.trbv = (uint8_t)stream_bits(s, 8);
		p->u.trig.ip = stream_random(s) & 1;
		p->u.trig.mult = stream_random(s) & 1;
		p->u.trig.has_icnt = stream_random(s) & 1;
		p->u.trig.icnt = p->u.trig.has_icnt ? (uint16_t)stream_bits(s, 16) : 0;
		break;
	default:
		break;
	}
}

/* A table again: what each packet may hold. */
static inline void stream_fill(struct stream *s, struct ptah_packet *p)
{
	switch (p->type) {
	case PTAH_PACKET_TNT_8:
	case PTAH_PACKET_TNT_64:
		p->u.tnt.count =
		    (uint8_t)(1 + stream_random(s) % (p->type == PTAH_PACKET_TNT_8 ? 6 : 47));
		p->u.tnt.bits = stream_random(s) & ((UINT64_C(1) << p->u.tnt.count) - 1);
		break;
	case PTAH_PACKET_TIP:
	case PTAH_PACKET_TIP_PGE:
	case PTAH_PACKET_TIP_PGD:
	case PTAH_PACKET_FUP:
		stream_fill_ip(s, p);
		break;
	case PTAH_PACKET_MODE_EXEC:
		p->u.exec.mode = (uint8_t)(1 + stream_random(s) % 3);
		p->u.exec.interrupts = stream_random(s) & 1;
		break;
	case PTAH_PACKET_MODE_TSX:
		p->u.tsx.in_tx = stream_random(s) & 1;
		p->u.tsx.aborted = !p->u.tsx.in_tx && (stream_random(s) & 1);
		break;
	case PTAH_PACKET_PIP:
		p->u.pip.cr3 = stream_bits(s, 47) << 5;
		p->u.pip.non_root = stream_random(s) & 1;
		break;
	case PTAH_PACKET_VMCS:
		p->u.vmcs.base = stream_bits(s, 40) << 12;
		break;
	case PTAH_PACKET_CBR:
		p->u.cbr.ratio = (uint8_t)stream_bits(s, 8);
		break;
	case PTAH_PACKET_TSC:
		p->u.tsc.tsc = stream_bits(s, 56);
		break;
	case PTAH_PACKET_TMA:
		p->u.tma.ctc = (uint16_t)stream_bits(s, 16);
		p->u.tma.fc = (uint16_t)stream_bits(s, 9);
		break;
	case PTAH_PACKET_MTC:
		p->u.mtc.ctc = (uint8_t)stream_bits(s, 8);
		break;
	case PTAH_PACKET_CYC:
		p->u.cyc.cycles = stream_bits(s, 64);
		break;
	case PTAH_PACKET_MNT:
		p->u.mnt.payload = stream_bits(s, 64);
		break;
	case PTAH_PACKET_PTW:
		p->u.ptw.size = stream_random(s) & 1 ? 4 : 8;
		p->u.ptw.payload = stream_bits(s, 8 * p->u.ptw.size);
		p->u.ptw.ip = stream_random(s) & 1;
		break;
	case PTAH_PACKET_EXSTOP:
		p->u.exstop.ip = stream_random(s) & 1;
		break;
	case PTAH_PACKET_MWAIT:
		p->u.mwait.hints = (uint32_t)stream_bits(s, 32);
		p->u.mwait.ext = (uint32_t)stream_bits(s, 32);
		break;
	default:
		stream_fill_event(s, p);
		break;
	}
}

/* Fills the stream: runs of one kind, of a length by chance, as real traces have them. */
static inline void stream_make(struct stream *s)
{
	s->size = 0;
	while (s->size + 8 * PTAH_PACKET_MAX_SIZE <= s->capacity) {
		unsigned type = (unsigned)(stream_random(s) % PTAH_PACKET_TYPE_MAX);
		unsigned run = 1 + (unsigned)(stream_random(s) % 8);

		if (!(s->types >> type & 1))
			continue;
		for (unsigned i = 0; i < run; i++) {
			struct ptah_packet p;
			int n;

			memset(&p, 0, sizeof(p));
			p.type = (uint8_t)type;
			stream_fill(s, &p);
			n = ptah_packet_encode(&p, s->bytes + s->size, s->capacity - s->size);
			assert_true(n > 0);
			s->size += (size_t)n;
		}
	}
}

#endif
