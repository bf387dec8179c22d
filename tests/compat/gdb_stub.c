/* SPDX-License-Identifier: MIT */
/*
 * gdb_stub PROGRAM RECORDING: a remote target for gdb on standard input and output. It presents a
 * static program that has stopped at the end of a recording, with Intel PT as in gdb's remote
 * protocol ("Branch Trace Format"). It answers only what gdb asks in the test, and refuses to
 * write.
 */
#include <ptah/session.h>

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct stub {
	uint8_t *program;
	size_t program_size;
	const uint8_t *trace;
	size_t trace_size;
	uint64_t pc;
	char *trace_xml;
	bool acks;
};

static _Noreturn void die(const char *what, const char *why)
{
	fprintf(stderr, "gdb_stub: %s: %s\n", what, why);
	exit(2);
}

static void read_program(struct stub *s, const char *path)
{
	FILE *f = fopen(path, "rb");
	long n;

	if (!f || fseek(f, 0, SEEK_END) || (n = ftell(f)) < (long)sizeof(Elf64_Ehdr))
		die(path, "no program");
	rewind(f);
	s->program_size = (size_t)n;
	s->program = malloc(s->program_size);
	if (!s->program || fread(s->program, 1, s->program_size, f) != s->program_size)
		die(path, "cannot be read");
	fclose(f);
}

/* The address of the last instruction of the path. */
static uint64_t find_end(const struct ptah_session *session)
{
	struct ptah_reader *stream;
	struct ptah_item items[64];
	uint64_t end = 0;
	int n;

	if (ptah_reader_new(session, 0, NULL, &stream) < 0)
		die("recording", "cannot be decoded");
	while ((n = ptah_reader_read(stream, items, 64)) > 0)
		for (int i = 0; i < n; i++)
			if (items[i].type == PTAH_ITEM_BLOCK)
				end = items[i].end - items[i].last_size;
	ptah_reader_free(stream);
	return end;
}

static void read_recording(struct stub *s, const char *path)
{
	struct ptah_session *session; /* stays open, because it owns the bytes */
	struct ptah_message why;
	const size_t head = 400;
	char *at;

	if (ptah_session_open(path, NULL, &session, &why) < 0)
		die(path, why.text);
	s->trace_size = ptah_session_stream_bytes(session, 0, 0, &s->trace);
	s->pc = find_end(session);
	s->trace_xml = malloc(head + 2 * s->trace_size);
	if (!s->trace_xml)
		die(path, "out of memory");
	at = s->trace_xml;
	at +=
	    sprintf(at, "<!DOCTYPE btrace SYSTEM \"btrace.dtd\">\n<btrace version=\"1.0\">\n<pt>\n"
			"<pt-config>\n<cpu vendor=\"GenuineIntel\" family=\"6\" model=\"142\" "
			"stepping=\"9\"/>\n</pt-config>\n<raw>\n");
	for (size_t i = 0; i < s->trace_size; i++)
		at += sprintf(at, "%02x", s->trace[i]);
	strcpy(at, "</raw>\n</pt>\n</btrace>\n");
}

/* Reads the program's segments as loaded, and a stack of zeros. */
static bool read_memory(const struct stub *s, uint64_t address, uint8_t *byte)
{
	const Elf64_Ehdr *header = (const Elf64_Ehdr *)s->program;

	for (unsigned i = 0; i < header->e_phnum; i++) {
		Elf64_Phdr p;
		uint64_t at;

		memcpy(&p, s->program + header->e_phoff + i * sizeof(p), sizeof(p));
		at = address - p.p_vaddr;
		/* Memory is mapped in whole pages. */
		if (p.p_type != PT_LOAD ||
		    at >= ((p.p_memsz + p.p_vaddr % 4096 + 4095) & ~UINT64_C(4095)) -
			      p.p_vaddr % 4096)
			continue;
		*byte = at < p.p_filesz ? s->program[p.p_offset + at] : 0;
		return true;
	}
	*byte = 0;
	return address - 0x7ffffff00000 < 0x10000;
}

static void reply(const char *text)
{
	unsigned sum = 0;

	for (const char *p = text; *p; p++)
		sum += (unsigned char)*p;
	printf("$%s#%02x", text, sum & 0xff);
	fflush(stdout);
}

/* rax..r15, rip, eflags, the segments; gdb treats the missing ones as unavailable. */
static void reply_registers(const struct stub *s)
{
	uint8_t registers[17 * 8 + 7 * 4] = {0};
	char text[2 * sizeof(registers) + 1];
	const uint64_t stack = 0x7ffffff08000;
	const uint32_t flags[] = {0x202, 0x33, 0x2b};

	memcpy(registers + 7 * 8, &stack, 8);
	memcpy(registers + 16 * 8, &s->pc, 8);
	memcpy(registers + 17 * 8, flags, sizeof(flags));
	for (size_t i = 0; i < sizeof(registers); i++)
		sprintf(text + 2 * i, "%02x", registers[i]);
	reply(text);
}

static void reply_memory(const struct stub *s, const char *packet)
{
	static char text[2 * 2048 + 1];
	unsigned long long address, size;
	size_t n = 0;
	uint8_t byte;

	if (sscanf(packet, "m%llx,%llx", &address, &size) != 2) {
		reply("E01");
		return;
	}
	while (n < size && n < 2048 && read_memory(s, address + n, &byte))
		sprintf(text + 2 * n++, "%02x", byte);
	reply(n ? text : "E14");
}

/*
 * Sends OFFSET,LENGTH of a document. None of these documents has characters that qXfer must escape.
 */
static void reply_part(const char *document, const char *range)
{
	static char text[0x4002];
	const size_t size = strlen(document);
	unsigned long long offset, length;

	if (sscanf(range, "%llx,%llx", &offset, &length) != 2 || offset > size) {
		reply("E01");
		return;
	}
	if (length > sizeof(text) - 2)
		length = sizeof(text) - 2;
	if (length > size - offset)
		length = size - offset;
	text[0] = offset + length == size ? 'l' : 'm';
	memcpy(text + 1, document + offset, length);
	text[1 + length] = '\0';
	reply(text);
}

static const char *after(const char *text, const char *start)
{
	const size_t n = strlen(start);

	return strncmp(text, start, n) ? NULL : text + n;
}

static void answer_query(struct stub *s, const char *packet)
{
	static const char conf[] = "<!DOCTYPE btrace-conf SYSTEM \"btrace-conf.dtd\">\n"
				   "<btrace-conf version=\"1.0\">\n<pt size=\"0x100000\"/>\n"
				   "</btrace-conf>\n";
	const char *rest;

	if (after(packet, "qSupported"))
		reply("PacketSize=4000;QStartNoAckMode+;Qbtrace:pt+;Qbtrace:off+;"
		      "Qbtrace-conf:pt:size+;qXfer:btrace:read+;qXfer:btrace-conf:read+");
	else if ((rest = after(packet, "qXfer:btrace:read:all:")))
		reply_part(s->trace_xml, rest);
	else if (after(packet, "qXfer:btrace:read:"))
		reply("E.Only the whole trace");
	else if ((rest = after(packet, "qXfer:btrace-conf:read::")))
		reply_part(conf, rest);
	else if (after(packet, "Qbtrace"))
		reply("OK");
	else if (!strcmp(packet, "qfThreadInfo"))
		reply("m1");
	else if (!strcmp(packet, "qsThreadInfo"))
		reply("l");
	else if (!strcmp(packet, "qC"))
		reply("QC1");
	else if (!strcmp(packet, "qAttached"))
		reply("1");
	else
		reply("");
}

static void answer(struct stub *s, const char *packet)
{
	switch (packet[0]) {
	case '?':
		reply("T05thread:1;");
		break;
	case 'g':
		reply_registers(s);
		break;
	case 'm':
		reply_memory(s, packet);
		break;
	case 'H':
	case 'T':
	case 'D':
		reply("OK");
		break;
	case 'Q':
		if (!strcmp(packet, "QStartNoAckMode")) {
			reply("OK");
			s->acks = false;
			break;
		}
		answer_query(s, packet);
		break;
	case 'q':
		answer_query(s, packet);
		break;
	default:
		reply("");
	}
}

/* Reads the next packet without its frame. False: gdb has closed the connection. */
static bool read_packet(const struct stub *s, char *packet, size_t room)
{
	size_t n = 0;
	int c;

	while ((c = getchar()) != '$')
		if (c == EOF)
			return false;
	while ((c = getchar()) != '#') {
		if (c == EOF)
			return false;
		if (n + 1 < room)
			packet[n++] = (char)c;
	}
	packet[n] = '\0';
	if (getchar() == EOF || getchar() == EOF)
		return false;
	if (s->acks)
		putchar('+');
	return true;
}

int main(int argc, char **argv)
{
	static char packet[0x4000];
	struct stub s = {.acks = true};

	if (argc != 3)
		die("usage", "gdb_stub PROGRAM RECORDING");
	read_program(&s, argv[1]);
	read_recording(&s, argv[2]);
	while (read_packet(&s, packet, sizeof(packet))) {
		answer(&s, packet);
		if (packet[0] == 'D' || packet[0] == 'k')
			break;
	}
	return 0;
}
