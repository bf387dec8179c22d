/* SPDX-License-Identifier: MIT */
/*
 * Prints a table of the .def files in include/ptah/ as documentation; tools/make-tables
 * compiles and runs it. Nothing here knows a packet or an erratum: what is
 * printed about one comes from its line in the table.
 */
#include <stdio.h>
#include <string.h>

/* Prints text so that groff finds no commands in it: "\-" is a dash. */
static void put_man(const char *text)
{
	for (; *text; text++) {
		if (*text == '-')
			putchar('\\');
		putchar(*text);
	}
}

static void put_erratum(const char *name, const char *symptom, const char *handling)
{
	printf(".TP\n.B %s\nSymptom: ", name);
	put_man(symptom);
	printf(".\n.br\nDecoding: ");
	put_man(handling);
	puts(".");
}

static void put_errata(void)
{
	fputs(
	    ".\\\" SPDX-License-Identifier: MIT\n"
	    ".\\\" Made by tools/make-tables from include/ptah/errata.def.\n"
	    ".TH PTAH\\-ERRATA 7 \"2026-11-22\" \"Ptah 0.1.0\" \"Ptah manual\"\n"
	    ".SH NAME\n"
	    "ptah\\-errata \\- errors of Intel's processors that decoding works around\n"
	    ".SH DESCRIPTION\n"
	    "Some processors write packets that differ from what Intel's manual defines. Intel\n"
	    "calls these errors errata and lists them, by these names, in the specification\n"
	    "updates of its processors.\n"
	    ".PP\n"
	    "A recording names the processor that it was made on, and the errata of that\n"
	    "processor are worked around. A raw trace names none, and nothing is worked around\n"
	    "until\n"
	    ".B \\-\\-processor\n"
	    "names the processor or\n"
	    ".B \\-\\-errata\n"
	    "lists the errata: on another processor the same packets are damage. The exception is\n"
	    "BDM70, which the packets show by themselves and which is always worked around.\n"
	    ".BR ptah\\-caps (1)\n"
	    "prints the errata of the processor it runs on.\n"
	    ".SH ERRATA\n",
	    stdout);
#define PTAH_ERRATUM(name, text, symptom, handling) put_erratum(text, symptom, handling);
#include <ptah/errata.def>
#undef PTAH_ERRATUM
	fputs(".SH SEE ALSO\n"
	      ".BR ptah (1),\n"
	      ".BR ptah\\-caps (1),\n"
	      ".BR ptah\\-report (1),\n"
	      ".BR ptah\\-script (1)\n",
	      stdout);
}

/* "02 73"; a byte with fields in it as bits, "xxx01101", its opcode's among them. */
static void put_opcode(const char *page, unsigned opcode, unsigned mask)
{
	printf("%s", !strcmp(page, "ext")    ? "02 "
		     : !strcmp(page, "ext2") ? "02 c3 "
		     : !strcmp(page, "mode") ? "99 "
					     : "");
	if (mask == 0xff) {
		printf("%02x", opcode);
		return;
	}
	for (unsigned bit = 8; bit-- > 0;)
		putchar(mask >> bit & 1 ? '0' + (int)(opcode >> bit & 1) : 'x');
}

/* A cell of a table: "|" ends it otherwise. */
static void put_cell(const char *text)
{
	printf(" | %s", text);
}

static void put_packet(const char *name, const char *what, const char *section, const char *page,
		       unsigned opcode, unsigned mask, unsigned least, unsigned most)
{
	printf("| %s", name);
	put_cell(what);
	put_cell("`");
	put_opcode(page, opcode, mask);
	printf("` | %u", least);
	if (most > least)
		printf(" to %u", most);
	put_cell(section);
	puts(" |");
}

static void put_line(const char *name, const char *text, const char *example)
{
	printf("| %s | %s | `%s%s%s` |\n", name, text, name, *example ? " " : "", example);
}

/* The bits [low + width - 1:low]. */
static void put_bits(unsigned low, unsigned width)
{
	if (width == 1)
		printf("[%u]", low);
	else
		printf("[%u:%u]", low + width - 1, low);
}

static void put_at(unsigned byte, unsigned bit, unsigned width, unsigned shift)
{
	printf("byte %u", byte);
	put_bits(bit, width);
	if (shift)
		printf(", without the low %u bits", shift);
}

static const char *packet; /* the one whose fields are printed */

static void put_field(const char *member, const char *word)
{
	printf("| %s | `%s` | %s | ", packet, strchr(member, '.') + 1, *word ? word : "");
}

static void put_fields(void)
{
#define WIRE_AT(byte, bit, width)	      put_at(byte, bit, width, 0)
#define WIRE_SHIFTED(byte, bit, width, shift) put_at(byte, bit, width, shift)
#define WIRE_SIZE_4_8(byte, bit)	      printf("byte %u[%u]: 4 when set, 8 when clear", byte, bit)
#define WIRE_BY_SHAPE			      printf("see the SDM")
#define RECORD_PAYLOAD(bit)		      printf(" | payload, from bit %u |\n", bit)
#define RECORD_DETAIL(bit)		      printf(" | detail, from bit %u |\n", bit)
#define PTAH_NUMBER(member, word, style, wire, record)                                             \
	put_field(#member, word), WIRE_##wire, RECORD_##record;
#define PTAH_FLAG(member, word, wire, record)                                                      \
	put_field(#member, word), WIRE_##wire, RECORD_##record;
#define PTAH_SIZED(member, word, bytes, byte, record)                                              \
	put_field(#member, word), printf("byte %u to the end", byte), RECORD_##record;             \
	put_field(#bytes, ""), printf("the size of that"),                                         \
	    printf(" | the record's size less %u |\n", byte);
#define PTAH_PACKET(name, sdm, what, section, page, opcode, mask, shape, least, most, text,        \
		    example, fields)                                                               \
	packet = sdm;                                                                              \
	fields
#include <ptah/packets.def>
}

static void put_packets(void)
{
	fputs(
	    "<!-- Made by tools/make-tables from include/ptah/packets.def. -->\n\n"
	    "# Packets\n\n"
	    "Every packet of Intel PT as `include/ptah/packets.def` has it. The enum, the "
	    "decoder,\n"
	    "the encoder, the packed record and the packet text are made from the same entries.\n\n"
	    "## Opcodes\n\n"
	    "Bytes are hexadecimal. A byte of eight digits is in binary, and its x are bits of\n"
	    "fields. The size is in bytes. Sections are those of the Intel SDM, volume 3C, under\n"
	    "\"Packet Definitions\". A BIP is one only between BBP and BEP.\n\n"
	    "| packet | what it is for | opcode | size | section |\n"
	    "|---|---|---|---|---|\n",
	    stdout);
#define PTAH_PACKET(name, sdm, what, section, page, opcode, mask, shape, least, most, ...)         \
	put_packet(sdm, what, section, #page, opcode, mask, least, most);
#include <ptah/packets.def>
	fputs("\n## Text\n\n"
	      "What `ptah dump` prints and `ptah asm` and `ptah_packet_parse()` take. Words and\n"
	      "numbers in brackets may be left out.\n\n"
	      "| packet | payload | example |\n"
	      "|---|---|---|\n",
	      stdout);
#define PTAH_PACKET(name, sdm, what, section, page, opcode, mask, shape, least, most, text,        \
		    example, ...)                                                                  \
	put_line(sdm, text, example);
#include <ptah/packets.def>
	fputs(
	    "\n## Fields\n\n"
	    "The members of `struct ptah_packet`'s union, where they are on the wire, and where\n"
	    "in `struct ptah_packet_record`. A field that begins at bit 0 of a byte and has more\n"
	    "than 8 bits goes on in the bytes after it, the lowest first.\n\n"
	    "| packet | member | word | wire | record |\n"
	    "|---|---|---|---|---|\n",
	    stdout);
	put_fields();
}

static void put_item(const char *name, const char *what)
{
	printf("| %s | %s | ", name, what);
}

/* What the decoders make of packets. */
static void put_items(void)
{
	fputs("\n## Items\n\n"
	      "What the event decoder makes of packets, and a flow of packets and code:\n"
	      "`include/ptah/events.def`. `ptah script --events` shows the fields.\n\n"
	      "| item | what it says | fields |\n"
	      "|---|---|---|\n",
	      stdout);
#define PTAH_FIELD_DECIMAL(member, word, when) printf("`%s` ", word);
#define PTAH_FIELD_HEX(member, word, when)     printf("`%s` ", word);
#define PTAH_FIELD_WORD(word, when)	       printf("`%s` ", word);
#define PTAH_ITEM(item, name, what, fields)                                                        \
	put_item(name, what);                                                                      \
	fields puts("|");
#include <ptah/events.def>
}

int main(int argc, char **argv)
{
	if (argc == 2 && !strcmp(argv[1], "errata"))
		put_errata();
	else if (argc == 2 && !strcmp(argv[1], "packets"))
		put_packets(), put_items();
	else
		return 2;
	return fflush(stdout) ? 1 : 0;
}
