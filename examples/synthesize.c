/* SPDX-License-Identifier: MIT */
/*
 * Encodes the packets that a processor would write for a small loop, then feeds
 * them byte by byte to a decoder with the loop's code.
 */
#include <ptah/flow.h>

#include <inttypes.h>
#include <stdio.h>

static uint8_t trace[256];
static size_t size;

static void put(struct ptah_packet packet)
{
	size += (size_t)ptah_packet_encode(&packet, trace + size, sizeof(trace) - size);
}

static void make_trace(void)
{
	uint64_t last_ip = 0, payload;
	unsigned ipc = ptah_packet_compress_ip(&last_ip, 0x401000, &payload);

	put((struct ptah_packet){.type = PTAH_PACKET_PSB});
	put((struct ptah_packet){.type = PTAH_PACKET_MODE_EXEC, .u.exec.mode = PTAH_EXEC_64});
	put((struct ptah_packet){.type = PTAH_PACKET_PSBEND});
	put((struct ptah_packet){.type = PTAH_PACKET_TIP_PGE,
				 .u.ip = {.ipc = (uint8_t)ipc, .ip = payload}});
	/* Taken four times, then not. */
	put((struct ptah_packet){.type = PTAH_PACKET_TNT_8, .u.tnt = {.count = 5, .bits = 0x1e}});
	put((struct ptah_packet){.type = PTAH_PACKET_TIP_PGD});
}

int main(void)
{
	static const uint8_t code[] = {
	    0xb9, 5,	0, 0, 0, /* 401000: mov ecx, 5 */
	    0xff, 0xc9,		 /* 401005: dec ecx */
	    0x75, 0xfc,		 /* 401007: jnz 401005 */
	    0x0f, 0x05,		 /* 401009: syscall */
	};
	struct ptah_image *image;
	struct ptah_flow *flow;
	struct ptah_item items[16];
	uint64_t instructions = 0;
	int n;

	make_trace();
	if (ptah_image_new(&image) < 0 ||
	    ptah_image_add_bytes(image, code, sizeof(code), 0x401000, NULL) < 0 ||
	    ptah_flow_new(image, NULL, &flow) < 0)
		return 1;
	for (size_t i = 0; i < size; i++) {
		ptah_flow_feed(flow, trace + i, 1, i + 1 == size);
		while ((n = ptah_flow_read(flow, items, 16)) > 0) {
			for (int k = 0; k < n; k++) {
				const struct ptah_item *item = &items[k];

				printf("%s", ptah_item_name(item->type));
				if (item->type == PTAH_ITEM_BLOCK) {
					printf(" %" PRIx64 "-%" PRIx64, item->ip, item->end);
					instructions += item->ninsn;
				}
				printf("\n");
			}
		}
	}
	printf("%" PRIu64 " instructions\n", instructions);
	ptah_flow_free(flow);
	ptah_image_free(image);
	return 0;
}
