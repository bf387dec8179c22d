/* SPDX-License-Identifier: MIT */
/* Packets in words. The one file of this layer that wants a hosted libc (snprintf). */
#include "base/compiler.h"

#include <ptah/packet.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *ptah_packet_name(unsigned type)
{
	static const char *const names[] = {
#define PTAH_PACKET(name, sdm, ...) sdm,
#include <ptah/packets.def>
	};

	return type < ARRAY_SIZE(names) ? names[type] : NULL;
}

static int format_tnt(const struct ptah_packet *packet, char *text, size_t n)
{
	char outcomes[64];
	unsigned count = packet->u.tnt.count;

	for (unsigned i = 0; i < count && i < sizeof(outcomes) - 1; i++)
		outcomes[i] = packet->u.tnt.bits >> (count - 1 - i) & 1 ? 'T' : 'N';
	outcomes[count < sizeof(outcomes) ? count : sizeof(outcomes) - 1] = '\0';
	return snprintf(text, n, "%s", outcomes);
}

static int format_ip(const struct ptah_packet *packet, char *text, size_t n)
{
	static const uint8_t digits[8] = {0, 4, 8, 12, 12, 0, 16, 0};
	unsigned ipc = packet->u.ip.ipc & 7;

	if (ipc == PTAH_IPC_SUPPRESSED)
		return snprintf(text, n, "0: ????????????????");
	return snprintf(text, n, "%u: %.*s%0*" PRIx64, ipc, 16 - digits[ipc], "????????????????",
			digits[ipc], packet->u.ip.ip);
}

static const char *mode_name(unsigned mode)
{
	return mode == PTAH_EXEC_64   ? "64-bit"
	       : mode == PTAH_EXEC_32 ? "32-bit"
	       : mode == PTAH_EXEC_16 ? "16-bit"
				      : "unknown";
}

static int format_power(const struct ptah_packet *packet, char *text, size_t n)
{
	if (packet->type == PTAH_PACKET_PWRE)
		return snprintf(text, n, "state %u sub %u%s", packet->u.pwre.state,
				packet->u.pwre.sub_state, packet->u.pwre.hw ? " hw" : "");
	return snprintf(text, n, "last %u deepest %u%s%s%s", packet->u.pwrx.last,
			packet->u.pwrx.deepest, packet->u.pwrx.interrupt ? " interrupt" : "",
			packet->u.pwrx.store ? " store" : "",
			packet->u.pwrx.autonomous ? " autonomous" : "");
}

static int format_trig(const struct ptah_packet *packet, char *text, size_t n)
{
	char icnt[16] = "";

	if (packet->u.trig.has_icnt)
		snprintf(icnt, sizeof(icnt), " icnt %u", packet->u.trig.icnt);
	return snprintf(text, n, "trbv 0x%x%s%s%s", packet->u.trig.trbv, icnt,
			packet->u.trig.mult ? " mult" : "", packet->u.trig.ip ? " ip" : "");
}

int ptah_packet_format(const struct ptah_packet *packet, char *text, size_t n)
{
	switch (packet->type) {
	case PTAH_PACKET_TNT_8:
	case PTAH_PACKET_TNT_64:
		return format_tnt(packet, text, n);
	case PTAH_PACKET_TIP:
	case PTAH_PACKET_TIP_PGE:
	case PTAH_PACKET_TIP_PGD:
	case PTAH_PACKET_FUP:
		return format_ip(packet, text, n);
	case PTAH_PACKET_MODE_EXEC:
		return snprintf(text, n, "%s%s", mode_name(packet->u.exec.mode),
				packet->u.exec.interrupts ? " if" : "");
	case PTAH_PACKET_MODE_TSX:
		return snprintf(text, n, "%s",
				packet->u.tsx.aborted ? "abort"
				: packet->u.tsx.in_tx ? "begin"
						      : "commit");
	case PTAH_PACKET_PIP:
		return snprintf(text, n, "cr3 0x%" PRIx64 "%s", packet->u.pip.cr3,
				packet->u.pip.non_root ? " nr" : "");
	case PTAH_PACKET_VMCS:
		return snprintf(text, n, "base 0x%" PRIx64, packet->u.vmcs.base);
	case PTAH_PACKET_CBR:
		return snprintf(text, n, "ratio %u", packet->u.cbr.ratio);
	case PTAH_PACKET_TSC:
		return snprintf(text, n, "0x%" PRIx64, packet->u.tsc.tsc);
	case PTAH_PACKET_TMA:
		return snprintf(text, n, "ctc 0x%x fc 0x%x", packet->u.tma.ctc, packet->u.tma.fc);
	case PTAH_PACKET_MTC:
		return snprintf(text, n, "ctc 0x%x", packet->u.mtc.ctc);
	case PTAH_PACKET_CYC:
		return snprintf(text, n, "cycles %" PRIu64, packet->u.cyc.cycles);
	case PTAH_PACKET_MNT:
		return snprintf(text, n, "0x%" PRIx64, packet->u.mnt.payload);
	case PTAH_PACKET_PTW:
		return snprintf(text, n, "0x%0*" PRIx64 "%s", 2 * packet->u.ptw.size,
				packet->u.ptw.payload, packet->u.ptw.ip ? " ip" : "");
	case PTAH_PACKET_EXSTOP:
		return snprintf(text, n, "%s", packet->u.exstop.ip ? "ip" : "");
	case PTAH_PACKET_MWAIT:
		return snprintf(text, n, "hints 0x%" PRIx32 " ext 0x%" PRIx32,
				packet->u.mwait.hints, packet->u.mwait.ext);
	case PTAH_PACKET_PWRE:
	case PTAH_PACKET_PWRX:
		return format_power(packet, text, n);
	case PTAH_PACKET_CFE:
		return snprintf(text, n, "type %u vector %u%s", packet->u.cfe.type,
				packet->u.cfe.vector, packet->u.cfe.ip ? " ip" : "");
	case PTAH_PACKET_EVD:
		return snprintf(text, n, "type %u 0x%" PRIx64, packet->u.evd.type,
				packet->u.evd.payload);
	case PTAH_PACKET_BBP:
		return snprintf(text, n, "type %u size %u", packet->u.bbp.type,
				packet->u.bbp.item_size);
	case PTAH_PACKET_BIP:
		return snprintf(text, n, "id %u 0x%0*" PRIx64, packet->u.bip.id,
				2 * packet->u.bip.item_size, packet->u.bip.payload);
	case PTAH_PACKET_BEP:
		return snprintf(text, n, "%s", packet->u.bep.ip ? "ip" : "");
	case PTAH_PACKET_TRIG:
		return format_trig(packet, text, n);
	default:
		return snprintf(text, n, "%s", "");
	}
}

/* Would the encoder write these very bytes? */
static bool is_canonical(const struct ptah_packet *packet, const uint8_t *bytes)
{
	struct ptah_packet plain = *packet;
	uint8_t ours[PTAH_PACKET_MAX_SIZE];
	int size;

	plain.size = 0; /* CYC: as short as can be */
	size = ptah_packet_encode(&plain, ours, sizeof(ours));
	return size == packet->size && !memcmp(ours, bytes, (size_t)size);
}

static size_t room(size_t n, int length)
{
	return (size_t)length < n ? n - (size_t)length : 0;
}

/* Where more text goes; what does not fit is still counted. */
static char *rest(char *text, size_t n, int length)
{
	return room(n, length) ? text + length : NULL;
}

int ptah_packet_format_line(const struct ptah_packet *packet, const uint8_t *bytes, size_t size,
			    char *text, size_t n)
{
	char payload[128];
	int length = 0;

	if (n)
		text[0] = '\0';
	if (packet) {
		ptah_packet_format(packet, payload, sizeof(payload));
		length = payload[0] ? snprintf(text, n, "%-10s %s", ptah_packet_name(packet->type),
					       payload)
				    : snprintf(text, n, "%s", ptah_packet_name(packet->type));
		if (is_canonical(packet, bytes))
			return length;
	}
	length += snprintf(rest(text, n, length), room(n, length), "%s.bytes", length ? " " : "");
	for (size_t i = 0; i < size; i++)
		length += snprintf(rest(text, n, length), room(n, length), " %02x", bytes[i]);
	return length;
}
