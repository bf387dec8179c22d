/* SPDX-License-Identifier: MIT */
#include "packet/record.h"
#include "base/bits.h"

/* Packets that are nothing but a number. */
static uint64_t pack_number(const struct ptah_packet *packet)
{
	switch (packet->type) {
	case PTAH_PACKET_VMCS:
		return packet->u.vmcs.base;
	case PTAH_PACKET_CBR:
		return packet->u.cbr.ratio;
	case PTAH_PACKET_TSC:
		return packet->u.tsc.tsc;
	case PTAH_PACKET_TMA:
		return packet->u.tma.ctc | (uint64_t)packet->u.tma.fc << 16;
	case PTAH_PACKET_MTC:
		return packet->u.mtc.ctc;
	case PTAH_PACKET_CYC:
		return packet->u.cyc.cycles;
	case PTAH_PACKET_MNT:
		return packet->u.mnt.payload;
	case PTAH_PACKET_MWAIT:
		return packet->u.mwait.hints | (uint64_t)packet->u.mwait.ext << 32;
	case PTAH_PACKET_MODE_TSX:
		return (packet->u.tsx.in_tx ? 1u : 0) | (packet->u.tsx.aborted ? 2u : 0);
	default:
		return 0;
	}
}

static void unpack_number(struct ptah_packet *packet, uint64_t payload)
{
	switch (packet->type) {
	case PTAH_PACKET_VMCS:
		packet->u.vmcs.base = payload;
		break;
	case PTAH_PACKET_CBR:
		packet->u.cbr.ratio = (uint8_t)payload;
		break;
	case PTAH_PACKET_TSC:
		packet->u.tsc.tsc = payload;
		break;
	case PTAH_PACKET_TMA:
		packet->u.tma.ctc = (uint16_t)payload;
		packet->u.tma.fc = (uint16_t)(payload >> 16);
		break;
	case PTAH_PACKET_MTC:
		packet->u.mtc.ctc = (uint8_t)payload;
		break;
	case PTAH_PACKET_CYC:
		packet->u.cyc.cycles = payload;
		break;
	case PTAH_PACKET_MNT:
		packet->u.mnt.payload = payload;
		break;
	case PTAH_PACKET_MWAIT:
		packet->u.mwait.hints = (uint32_t)payload;
		packet->u.mwait.ext = (uint32_t)(payload >> 32);
		break;
	case PTAH_PACKET_MODE_TSX:
		packet->u.tsx.in_tx = payload & 1;
		packet->u.tsx.aborted = payload & 2;
		break;
	default:
		break;
	}
}

/* Long, but a table: one case per kind of packet, as unpack's below. */
void packet_pack(struct ptah_packet_record *record, const struct ptah_packet *packet)
{
	uint8_t detail = 0;
	uint64_t payload = 0;

	switch (packet->type) {
	case PTAH_PACKET_TNT_8:
	case PTAH_PACKET_TNT_64:
		detail = packet->u.tnt.count;
		payload = packet->u.tnt.bits;
		break;
	case PTAH_PACKET_TIP:
	case PTAH_PACKET_TIP_PGE:
	case PTAH_PACKET_TIP_PGD:
	case PTAH_PACKET_FUP:
		detail = packet->u.ip.ipc;
		payload = packet->u.ip.ip;
		break;
	case PTAH_PACKET_MODE_EXEC:
		detail = packet->u.exec.mode;
		payload = packet->u.exec.interrupts;
		break;
	case PTAH_PACKET_PIP:
		detail = packet->u.pip.non_root;
		payload = packet->u.pip.cr3;
		break;
	case PTAH_PACKET_PTW:
		detail = packet->u.ptw.ip;
		payload = packet->u.ptw.payload;
		break;
	case PTAH_PACKET_EXSTOP:
		detail = packet->u.exstop.ip;
		break;
	case PTAH_PACKET_PWRE:
		detail = packet->u.pwre.hw;
		payload = packet->u.pwre.state | (unsigned)packet->u.pwre.sub_state << 8;
		break;
	case PTAH_PACKET_PWRX:
		detail =
		    (uint8_t)((packet->u.pwrx.interrupt ? 1 : 0) | (packet->u.pwrx.store ? 2 : 0) |
			      (packet->u.pwrx.autonomous ? 4 : 0));
		payload = packet->u.pwrx.last | (unsigned)packet->u.pwrx.deepest << 8;
		break;
	case PTAH_PACKET_CFE:
		detail = packet->u.cfe.ip;
		payload = packet->u.cfe.type | (unsigned)packet->u.cfe.vector << 8;
		break;
	case PTAH_PACKET_EVD:
		detail = packet->u.evd.type;
		payload = packet->u.evd.payload;
		break;
	case PTAH_PACKET_BBP:
		detail = packet->u.bbp.type;
		payload = packet->u.bbp.item_size;
		break;
	case PTAH_PACKET_BIP:
		detail = packet->u.bip.id;
		payload = packet->u.bip.payload;
		break;
	case PTAH_PACKET_BEP:
		detail = packet->u.bep.ip;
		break;
	case PTAH_PACKET_TRIG:
		detail = (uint8_t)((packet->u.trig.ip ? 1 : 0) | (packet->u.trig.mult ? 2 : 0) |
				   (packet->u.trig.has_icnt ? 4 : 0));
		payload = packet->u.trig.trbv | (uint64_t)packet->u.trig.icnt << 16;
		break;
	default:
		payload = pack_number(packet);
		break;
	}
	record->type = packet->type;
	record->size = packet->size;
	record->detail = detail;
	record->reserved = 0;
	record->payload = payload;
}

void ptah_packet_unpack(struct ptah_packet *packet, const struct ptah_packet_record *record)
{
	uint8_t detail = record->detail;
	uint64_t payload = record->payload;

	memset(packet, 0, sizeof(*packet));
	packet->type = record->type;
	packet->size = record->size;
	switch (record->type) {
	case PTAH_PACKET_TNT_8:
	case PTAH_PACKET_TNT_64:
		packet->u.tnt.count = detail;
		packet->u.tnt.bits = payload;
		break;
	case PTAH_PACKET_TIP:
	case PTAH_PACKET_TIP_PGE:
	case PTAH_PACKET_TIP_PGD:
	case PTAH_PACKET_FUP:
		packet->u.ip.ipc = detail;
		packet->u.ip.ip = payload;
		break;
	case PTAH_PACKET_MODE_EXEC:
		packet->u.exec.mode = detail;
		packet->u.exec.interrupts = payload;
		break;
	case PTAH_PACKET_PIP:
		packet->u.pip.non_root = detail;
		packet->u.pip.cr3 = payload;
		break;
	case PTAH_PACKET_PTW:
		packet->u.ptw.size = (uint8_t)(record->size - 2);
		packet->u.ptw.ip = detail;
		packet->u.ptw.payload = payload;
		break;
	case PTAH_PACKET_EXSTOP:
		packet->u.exstop.ip = detail;
		break;
	case PTAH_PACKET_PWRE:
		packet->u.pwre.hw = detail;
		packet->u.pwre.state = (uint8_t)payload;
		packet->u.pwre.sub_state = (uint8_t)(payload >> 8);
		break;
	case PTAH_PACKET_PWRX:
		packet->u.pwrx.interrupt = detail & 1;
		packet->u.pwrx.store = detail & 2;
		packet->u.pwrx.autonomous = detail & 4;
		packet->u.pwrx.last = (uint8_t)payload;
		packet->u.pwrx.deepest = (uint8_t)(payload >> 8);
		break;
	case PTAH_PACKET_CFE:
		packet->u.cfe.ip = detail;
		packet->u.cfe.type = (uint8_t)payload;
		packet->u.cfe.vector = (uint8_t)(payload >> 8);
		break;
	case PTAH_PACKET_EVD:
		packet->u.evd.type = detail;
		packet->u.evd.payload = payload;
		break;
	case PTAH_PACKET_BBP:
		packet->u.bbp.type = detail;
		packet->u.bbp.item_size = (uint8_t)payload;
		break;
	case PTAH_PACKET_BIP:
		packet->u.bip.id = detail;
		packet->u.bip.item_size = (uint8_t)(record->size - 1);
		packet->u.bip.payload = payload;
		break;
	case PTAH_PACKET_BEP:
		packet->u.bep.ip = detail;
		break;
	case PTAH_PACKET_TRIG:
		packet->u.trig.ip = detail & 1;
		packet->u.trig.mult = detail & 2;
		packet->u.trig.has_icnt = detail & 4;
		packet->u.trig.trbv = (uint8_t)payload;
		packet->u.trig.icnt = (uint16_t)(payload >> 16);
		break;
	default:
		unpack_number(packet, payload);
		break;
	}
}
