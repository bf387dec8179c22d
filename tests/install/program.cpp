/* SPDX-License-Identifier: MIT */
/*
 * A C++ program on the public headers (languages.sh): assembles a trace, decodes it over a few
 * bytes of code, and prints how many blocks and instructions ran.
 */
#include <ptah/ptah.h>

#include <cstdio>
#include <memory>
#include <vector>

namespace
{

/* 1000: dec ecx; 1002: jne 1000; 1004: syscall */
const unsigned char code[] = {0xff, 0xc9, 0x75, 0xfc, 0x0f, 0x05};

/* Four times around, then out; the system call leaves what is traced. */
const char *const text[] = {"PSB",    "MODE.Exec 64-bit", "FUP 0x1000",
			    "PSBEND", "TNT TTTTN",	  "TIP.PGD"};

std::vector<unsigned char> assemble()
{
	ptah_packet_parser parser = ptah_packet_parser();
	std::vector<unsigned char> trace;

	for (const char *line : text) {
		unsigned char bytes[PTAH_PACKET_MAX_SIZE];
		const int n = ptah_packet_parse(&parser, line, bytes, sizeof(bytes));

		if (n < 0) {
			std::printf("%s: %s: %s expected\n", line, ptah_strerror(n),
				    parser.expected);
			return {};
		}
		trace.insert(trace.end(), bytes, bytes + n);
	}
	return trace;
}

} // namespace

int main()
{
	const std::vector<unsigned char> trace = assemble();
	ptah_image *new_image = nullptr;
	ptah_flow *new_flow = nullptr;
	ptah_flow_config config = ptah_flow_config();
	ptah_item items[16];
	unsigned blocks = 0, instructions = 0;
	int n;

	config.size = sizeof(config);
	if (ptah_image_new(&new_image) < 0)
		return 1;
	const std::unique_ptr<ptah_image, void (*)(ptah_image *)> image(new_image, ptah_image_free);
	if (ptah_image_add_bytes(image.get(), code, sizeof(code), 0x1000, nullptr) < 0 ||
	    ptah_flow_new(image.get(), &config, &new_flow) < 0)
		return 1;
	const std::unique_ptr<ptah_flow, void (*)(ptah_flow *)> flow(new_flow, ptah_flow_free);
	if (ptah_flow_feed(flow.get(), trace.data(), trace.size(), true) < 0)
		return 1;
	while ((n = ptah_flow_read(flow.get(), items, 16)) > 0)
		for (int i = 0; i < n; i++) {
			if (items[i].type == PTAH_ITEM_ERROR)
				std::printf("%s\n", ptah_strerror(items[i].status));
			if (items[i].type != PTAH_ITEM_BLOCK)
				continue;
			blocks++;
			instructions += items[i].ninsn;
		}
	std::printf("%u blocks, %u instructions\n", blocks, instructions);
	return 0;
}
