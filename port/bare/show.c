/* SPDX-License-Identifier: MIT */
/*
 * Packets to text. Direct branches and the outcomes of conditional ones are not followed, which
 * would take the code: docs/porting.md says how a recording for `ptah` is made. But every call and
 * every return of program.c has an address in its packet, which suffices to print who called whom.
 */
#include "show.h"
#include "port.h"
#include "program.h"

#include <ptah/packet.h>

#include <string.h>

/* What is known between two packets. */
struct reader {
	uint64_t last_ip;
	unsigned block;
	unsigned depth; /* of calls */
};

/* The function of program.c that has this address, or NULL. */
static const struct program_name *find_function(uint64_t address)
{
	const size_t names = ((uintptr_t)names_end - (uintptr_t)names_begin) / sizeof(*names_begin);
	const struct program_name *found = NULL;

	if (address < (uintptr_t)traced_begin || address >= (uintptr_t)traced_end)
		return NULL;
	for (size_t i = 0; i < names; i++)
		if (names_begin[i].address <= address &&
		    (!found || names_begin[i].address > found->address))
			found = &names_begin[i];
	return found;
}

/* "gcd+0x12" */
static void print_address(uint64_t address)
{
	const struct program_name *name = find_function(address);

	if (!name) {
		bare_print_hex(address);
		return;
	}
	bare_print(name->text);
	if (name->address != address) {
		bare_print("+");
		bare_print_hex(address - name->address);
	}
}

/* A call enters a function at its first byte; a return leads to any other place. */
static void print_target(struct reader *r, uint64_t address)
{
	const struct program_name *name = find_function(address);
	bool call = name && name->address == address;

	if (!call && r->depth)
		r->depth--;
	for (unsigned i = 0; i < r->depth; i++)
		bare_print("  ");
	if (call)
		r->depth++;
	else
		bare_print("back in ");
	print_address(address);
}

/* What an address in a packet of this type means. */
static void print_meaning(struct reader *r, unsigned type, uint64_t address)
{
	switch (type) {
	case PTAH_PACKET_TIP:
	case PTAH_PACKET_TIP_PGE:
		print_target(r, address);
		break;
	case PTAH_PACKET_TIP_PGD:
		bare_print("out to ");
		print_address(address);
		break;
	default:
		bare_print("at ");
		print_address(address);
		break;
	}
}

static bool has_ip(unsigned type)
{
	return type == PTAH_PACKET_TIP || type == PTAH_PACKET_TIP_PGE ||
	       type == PTAH_PACKET_TIP_PGD || type == PTAH_PACKET_FUP;
}

/* The next packet. False at the end of the bytes, or (*bad) where they are no packet. */
static bool next_packet(struct reader *r, struct ptah_packet *packet, const uint8_t **at,
			const uint8_t *end, bool *bad)
{
	int size;

	*bad = false;
	if (*at == end)
		return false;
	size = ptah_packet_decode(packet, *at, (size_t)(end - *at), r->block);
	*bad = size < 0;
	if (*bad)
		return false;
	r->block = ptah_packet_block_state(packet, r->block);
	if (packet->type == PTAH_PACKET_PSB)
		r->last_ip = 0;
	*at += size;
	return true;
}

#define NAME_COLUMNS	10
#define PAYLOAD_COLUMNS 24

static void print_padded(const char *text, unsigned columns)
{
	unsigned n = 0;

	for (bare_print(text); text[n];)
		n++;
	for (; n < columns; n++)
		bare_print(" ");
}

bool show_packets(const uint8_t *bytes, size_t n)
{
	const uint8_t *at = bytes, *end = bytes + n;
	struct ptah_packet packet;
	struct reader r = {0};
	char payload[64];
	uint64_t ip;
	bool bad;

	while (next_packet(&r, &packet, &at, end, &bad)) {
		if (packet.type == PTAH_PACKET_PAD)
			continue;
		ptah_packet_format(&packet, payload, sizeof(payload));
		bare_print("  ");
		print_padded(ptah_packet_name(packet.type), NAME_COLUMNS);
		print_padded(payload, PAYLOAD_COLUMNS);
		if (has_ip(packet.type) &&
		    ptah_packet_ip(&r.last_ip, packet.u.ip.ipc, packet.u.ip.ip, &ip))
			print_meaning(&r, packet.type, ip);
		bare_print("\n");
	}
	return !bad;
}

long show_count(const uint8_t *bytes, size_t n, uint64_t address)
{
	const uint8_t *at = bytes, *end = bytes + n;
	struct ptah_packet packet;
	struct reader r = {0};
	long found = 0;
	uint64_t ip;
	bool bad;

	while (next_packet(&r, &packet, &at, end, &bad))
		if (has_ip(packet.type) &&
		    ptah_packet_ip(&r.last_ip, packet.u.ip.ipc, packet.u.ip.ip, &ip))
			found += packet.type == PTAH_PACKET_TIP && ip == address;
	return bad ? -1 : found;
}
