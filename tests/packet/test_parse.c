/* SPDX-License-Identifier: MIT */
/*
 * Packet text against bytes written down by hand from the SDM's packet
 * definitions; and text that is refused, with the position of the mistake.
 */
#include "test.h"

#include <ptah/packet.h>

#include <string.h>

static struct ptah_packet_parser parser;

static void check_line(const char *line, const uint8_t *wanted, size_t n, const char *at)
{
	uint8_t got[64];
	int size = ptah_packet_parse(&parser, line, got, sizeof(got));

	if (size != (int)n || memcmp(got, wanted, n) != 0)
		fail_msg("%s: \"%s\" gives %d bytes: %s", at, line, size,
			 parser.expected ? parser.expected : "others");
}

#define STRING(x) #x
#define AT(line)  __FILE__ ":" STRING(line)
#define LINE(text, ...)                                                                            \
	do {                                                                                       \
		const uint8_t bytes_[] = {__VA_ARGS__};                                            \
		check_line(text, bytes_, sizeof(bytes_), AT(__LINE__));                            \
	} while (0)

/* The line is refused, with the mistake at this position. */
#define REFUSE(text, place)                                                                        \
	do {                                                                                       \
		uint8_t bytes_[64];                                                                \
		assert_int_equal(ptah_packet_parse(&parser, text, bytes_, sizeof(bytes_)),         \
				 PTAH_E_INVAL);                                                    \
		assert_non_null(parser.expected);                                                  \
		assert_int_equal(parser.at, place);                                                \
	} while (0)

static void start(void)
{
	memset(&parser, 0, sizeof(parser));
}

TEST(simple_packets)
{
	start();
	LINE("PAD", 0);
	LINE("psb", 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82);
	LINE("PsbEnd", 2, 0x23);
	LINE("OVF", 2, 0xf3);
	LINE("TraceStop", 2, 0x83);
	LINE("stop", 2, 0x83);
	LINE("EXSTOP", 2, 0x62);
	LINE("EXSTOP ip", 2, 0xe2);
	LINE("BEP", 2, 0x33);
	LINE("BEP ip", 2, 0xb3);
	LINE("CBR ratio 9", 2, 3, 9, 0);
	LINE("cbr 0x1e", 2, 3, 30, 0);
	LINE("TSC 0x77665544332211", 0x19, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77);
	LINE("TMA ctc 0x1234 fc 0x1ff", 2, 0x73, 0x34, 0x12, 0, 0xff, 1);
	LINE("tma 1, 2", 2, 0x73, 1, 0, 0, 2, 0);
	LINE("MTC ctc 0x5a", 0x59, 0x5a);
	LINE("MNT 0x8877665544332211", 2, 0xc3, 0x88, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77,
	     0x88);
	LINE("MODE.Exec 64-bit", 0x99, 1);
	LINE("MODE.Exec 32-bit if", 0x99, 6);
	LINE("mode.exec 16-bit", 0x99, 0);
	LINE("MODE.TSX begin", 0x99, 0x21);
	LINE("MODE.TSX abort", 0x99, 0x22);
	LINE("MODE.TSX commit", 0x99, 0x20);
	LINE("PIP cr3 0x12345000 nr", 2, 0x43, 0x01, 0x45, 0x23, 1, 0, 0);
	LINE("VMCS base 0x12345000", 2, 0xc8, 0x45, 0x23, 1, 0, 0);
	LINE("MWAIT hints 0x20 ext 0x1", 2, 0xc2, 0x20, 0, 0, 0, 1, 0, 0, 0);
	LINE("PWRE state 3 sub 2 hw", 2, 0x22, 0x80, 0x32);
	LINE("PWRX last 2 deepest 3 interrupt autonomous", 2, 0xa2, 0x23, 9, 0, 0, 0);
	LINE("CFE type 1 vector 14 ip", 2, 0x13, 0x81, 14);
	LINE("cfe 2", 2, 0x13, 2, 0);
	LINE("EVD type 0 0x1122", 2, 0x53, 0, 0x22, 0x11, 0, 0, 0, 0, 0, 0);
	LINE("TRIG trbv 0x3 mult ip", 0xd9, 0xa0, 3);
	LINE("TRIG trbv 0x3 icnt 258", 0xd9, 0x40, 3, 2, 1);
}

/* SDM "Taken/Not-taken (TNT) Packet": the oldest branch is the one below the stop bit. */
TEST(outcomes)
{
	start();
	LINE("TNT-8 TTN", 0x1c);
	LINE("tnt t", 0x06);
	LINE("tnt !!..!.", 0xe4);
	LINE("tnt TTNNTTN", 2, 0xa3, 0xe6, 0, 0, 0, 0, 0);
	LINE("TNT-64 T", 2, 0xa3, 3, 0, 0, 0, 0, 0);
	REFUSE("tnt", 3);
	REFUSE("tnt TTX", 4);
	REFUSE("TNT-8 TTTTTTT", 0);
	REFUSE("tnt TTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTTT", 4); /* 48 */
}

/* SDM "IP Compression". */
TEST(addresses)
{
	start();
	LINE("tip.pge.48 0x401000", 0x71, 0, 0x10, 0x40, 0, 0, 0);
	LINE("tip 0x502010", 0x4d, 0x10, 0x20, 0x50, 0);
	LINE("tip 0x502020", 0x2d, 0x20, 0x20);
	LINE("fup.32 0x402020", 0x5d, 0x20, 0x20, 0x40, 0);
	LINE("tip 0x7fff00000010", 0x6d, 0x10, 0, 0, 0, 0xff, 0x7f);
	LINE("tip 0xffffffff81000000", 0x6d, 0, 0, 0, 0x81, 0xff, 0xff);
	LINE("tip 0x8000000000000000", 0xcd, 0, 0, 0, 0, 0, 0, 0, 0x80);
	LINE("tip.pgd", 0x01);
	LINE("tip 0x8000000000000001", 0x2d, 1, 0);
	LINE("psb", 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82, 2, 0x82);
	LINE("fup 0x10", 0x3d, 0x10, 0); /* the last IP is 0 after a PSB */
	REFUSE("fup.16 0x20000", 7);
	REFUSE("fup.48 0x8000000000000000", 7);
	REFUSE("fup.16", 6);
	REFUSE("fup.17 0x10", 7);
	REFUSE("fup 401000", 4);
	LINE("TIP 2: ????????00401000", 0x4d, 0, 0x10, 0x40, 0);
	LINE("TIP 4: ????123456789abc  0000123456789abc", 0x8d, 0xbc, 0x9a, 0x78, 0x56, 0x34, 0x12);
	LINE("FUP 0: ????????????????", 0x1d);
	REFUSE("TIP 5: ????????????1000", 0);
	REFUSE("TIP 1: ????????????????", 7);
	REFUSE("TIP 0: ????????????1000", 7);
	REFUSE("TIP 1: ????????00401000", 0);
}

/* SDM "Cycle Count (CYC) Packet": 5 bits, then 7 in each byte. */
TEST(cycles)
{
	start();
	LINE("cyc 31", 0xfb);
	LINE("cyc 32", 0x07, 0x02);
	LINE("CYC cycles 5000", 0x47, 0x39, 0x02);
	LINE("CYC cycles 1 .bytes 0f 00", 0x0f, 0x00);
	REFUSE("CYC cycles 2 .bytes 0f 00", 13);
	REFUSE("cyc 18446744073709551616", 4);
}

TEST(operand_sizes)
{
	start();
	LINE("ptw 5 ip", 2, 0x92, 5, 0, 0, 0);
	LINE("ptw.8 5", 2, 0x32, 5, 0, 0, 0, 0, 0, 0, 0);
	LINE("PTW 0x00000005", 2, 0x12, 5, 0, 0, 0);
	LINE("PTW 0x0000000000000005", 2, 0x32, 5, 0, 0, 0, 0, 0, 0, 0);
	LINE("ptw 4294967296", 2, 0x32, 0, 0, 0, 0, 1, 0, 0, 0);
	LINE("BBP type 1 size 4", 2, 0x63, 0x81);
	LINE("bip 3 0x10", 0x1c, 0x10, 0, 0, 0);
	LINE("bbp 1 8", 2, 0x63, 1);
	LINE("bip 3 0x10", 0x1c, 0x10, 0, 0, 0, 0, 0, 0, 0);
	LINE("BIP id 3 0x00000010", 0x1c, 0x10, 0, 0, 0, 0, 0, 0, 0);
	LINE("bip.4 3 0x10", 0x1c, 0x10, 0, 0, 0);
	REFUSE("ptw.4 4294967296", 0);
	REFUSE("ptw.2 1", 0);
	REFUSE("bbp 1 5", 0);
}

/* Bytes after a packet keep its reserved bits; they must mean that packet. */
TEST(bytes)
{
	start();
	LINE("CBR ratio 9 .bytes 02 03 09 ff", 2, 3, 9, 0xff);
	LINE("CBR ratio 9 .bytes 020309ff # and a comment", 2, 3, 9, 0xff);
	REFUSE("CBR ratio 8 .bytes 02 03 09 ff", 12);
	REFUSE("CBR ratio 9 .bytes 02 03 09", 12);
	LINE(".bytes 02 ff FF", 2, 0xff, 0xff);
}

TEST(lines)
{
	uint8_t got[16];

	start();
	assert_int_equal(ptah_packet_parse(&parser, "", got, sizeof(got)), 0);
	assert_int_equal(ptah_packet_parse(&parser, " \t# psb", got, sizeof(got)), 0);
	LINE("0000000000000010  PAD", 0);
	LINE("0000000000000010  0000  PAD # raw bytes do not count", 0);
	LINE("10: pad\r", 0);
	LINE("10: cfe 2", 2, 0x13, 2, 0);
	assert_int_equal(ptah_packet_parse(&parser, "psb", got, 15), PTAH_E_NOSPACE);
	assert_int_equal(ptah_packet_parse(&parser, ".bytes 0102", got, 1), PTAH_E_NOSPACE);
	REFUSE("10:", 3);
	REFUSE("tpi 3", 0);
	REFUSE("psb 3", 4);
	REFUSE("psb.4", 0);
	REFUSE("cbr", 3);
	REFUSE("cbr 300", 4);
	REFUSE("cbr ratio", 9);
	REFUSE("cbr 1 2", 6);
	REFUSE("cbr 1 ratio 2", 12);
	REFUSE("tma ctc 1 2 fc", 14);
	REFUSE("tma 1 512", 0);
	REFUSE("pip 3", 0);
	REFUSE("exstop ip ip", 10);
	REFUSE("mode.exec", 9);
	REFUSE("mode.exec if", 0);
	REFUSE("mode.tsx begin abort", 0);
	REFUSE(".bytes", 6);
	REFUSE(".bytes 1", 7);
	REFUSE(".bytes 0g", 7);
}
