/* SPDX-License-Identifier: MIT */
/*
 * Packet text to bytes: the inverse of format.c, and what people write by hand. The
 * words and fields of each packet are in <ptah/packets.def>.
 */
#include "packet/ip.h"
#include "packet/table.h"

/* The current word of the line, and the rest of the line after it. */
struct words {
	const char *line, *rest;
	const char *word;
	size_t n; /* length of the word; 0: there is none */
};

/* Words and numbers */

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == ',';
}

static void next(struct words *w)
{
	while (is_blank(*w->rest))
		w->rest++;
	w->word = w->rest;
	while (*w->rest && *w->rest != '#' && !is_blank(*w->rest))
		w->rest++;
	w->n = (size_t)(w->rest - w->word);
}

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* Whether the text begins with the word, in upper or lower case. Returns the word's length. */
static size_t begins(const char *text, size_t n, const char *word)
{
	size_t i = 0;

	while (i < n && word[i] && lower(text[i]) == lower(word[i]))
		i++;
	return word[i] ? 0 : i;
}

static bool is_word(const struct words *w, const char *word)
{
	return w->n && begins(w->word, w->n, word) == w->n;
}

static int digit(char c)
{
	c = lower(c);
	if (c >= '0' && c <= '9')
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool parse_digits(const char *p, size_t n, unsigned base, uint64_t *value)
{
	*value = 0;
	for (size_t i = 0; i < n; i++) {
		int d = digit(p[i]);

		if (d < 0 || (unsigned)d >= base || *value > (UINT64_MAX - (unsigned)d) / base)
			return false;
		*value = *value * base + (unsigned)d;
	}
	return n > 0;
}

static bool is_hex(const struct words *w)
{
	for (size_t i = 0; i < w->n; i++)
		if (digit(w->word[i]) < 0)
			return false;
	return w->n > 0;
}

/* Decimal, or hexadecimal with 0x. */
static bool parse_number(const struct words *w, uint64_t *value)
{
	if (begins(w->word, w->n, "0x"))
		return parse_digits(w->word + 2, w->n - 2, 16, value);
	return parse_digits(w->word, w->n, 10, value);
}

static int expected(struct ptah_packet_parser *parser, const struct words *w, const char *what)
{
	parser->expected = what;
	parser->at = (size_t)(w->word - w->line);
	return PTAH_E_INVAL;
}

/* Payloads */

static const struct packet_field *find_field(const struct packet_entry *entry,
					     const struct words *w)
{
	for (const struct packet_field *f = entry->fields; f->kind; f++)
		if (is_word(w, f->word))
			return f;
	return NULL;
}

static bool is_number_field(const struct packet_field *f)
{
	return f->kind == PACKET_FIELD_NUMBER || f->kind == PACKET_FIELD_OPTIONAL;
}

/* The field of a number without a word: the first number that has not been given. */
static const struct packet_field *next_field(const struct packet_entry *entry, unsigned given)
{
	for (unsigned i = 0; entry->fields[i].kind; i++)
		if (is_number_field(&entry->fields[i]) && !(given >> i & 1))
			return &entry->fields[i];
	return NULL;
}

/* What has been parsed of the fields: needed afterwards for sizes and for optional fields. */
struct shape {
	unsigned given;	 /* the fields that the text has, a bit for each index */
	unsigned digits; /* hexadecimal digits of the longest number */
};

/* Parses one field. Moves on to the number when a word stands before it. */
static int parse_field(struct ptah_packet_parser *parser, struct words *w,
		       struct ptah_packet *packet, struct shape *shape)
{
	const struct packet_entry *entry = &packet_entries[packet->type];
	const struct packet_field *f = find_field(entry, w);
	uint64_t value = 0;

	if (f && is_number_field(f))
		next(w);
	if (!f || is_number_field(f)) {
		unsigned digits = (unsigned)(w->n > 18 ? 18 : w->n);

		if (!parse_number(w, &value))
			return expected(parser, w, entry->text);
		if (!f)
			f = next_field(entry, shape->given);
		if (!f)
			return expected(parser, w, entry->text);
		if (begins(w->word, w->n, "0x") && digits - 2 > shape->digits)
			shape->digits = digits - 2;
	} else {
		value = f->value;
	}
	if ((shape->given >> (f - entry->fields) & 1) || !packet_set_field(packet, f, value))
		return expected(parser, w, entry->text);
	shape->given |= 1u << (f - entry->fields);
	return 0;
}

static int parse_fields(struct ptah_packet_parser *parser, struct words *w,
			struct ptah_packet *packet, struct shape *shape)
{
	const struct packet_entry *entry = &packet_entries[packet->type];

	for (; w->n && !is_word(w, ".bytes"); next(w)) {
		int status = parse_field(parser, w, packet, shape);

		if (status < 0)
			return status;
	}
	for (unsigned i = 0; entry->fields[i].kind; i++) {
		bool needed = entry->fields[i].kind == PACKET_FIELD_NUMBER ||
			      (entry->fields[i].kind == PACKET_FIELD_CHOICE && !shape->given);

		if (needed && !(shape->given >> i & 1))
			return expected(parser, w, entry->text);
	}
	return 0;
}

/* Outcomes as T and N, or as ! and ., which libipt's ptdump prints. */
static int parse_outcomes(struct ptah_packet_parser *parser, struct words *w,
			  struct ptah_packet *packet, bool choose)
{
	if (!w->n || w->n > 47)
		return expected(parser, w, packet_entries[PTAH_PACKET_TNT_64].text);
	if (choose)
		packet->type = w->n <= 6 ? PTAH_PACKET_TNT_8 : PTAH_PACKET_TNT_64;
	for (size_t i = 0; i < w->n; i++) {
		char c = lower(w->word[i]);

		if (c != 't' && c != 'n' && c != '!' && c != '.')
			return expected(parser, w, packet_entries[packet->type].text);
		packet->u.tnt.bits = packet->u.tnt.bits << 1 | (c == 't' || c == '!');
	}
	packet->u.tnt.count = (uint8_t)w->n;
	next(w);
	return 0;
}

/* "2: ????????00401000": the payload as sent. The address that it means may follow and is not read.
 */
static int parse_sent_ip(struct ptah_packet_parser *parser, struct words *w,
			 struct ptah_packet *packet)
{
	size_t unknown = 0;

	packet->u.ip.ipc = (uint8_t)digit(w->word[0]);
	next(w);
	while (unknown < w->n && w->word[unknown] == '?')
		unknown++;
	if (!w->n)
		return expected(parser, w, "the digits of an IP (????????00401000)");
	if ((unknown == w->n) != (packet->u.ip.ipc == PTAH_IPC_SUPPRESSED))
		return expected(parser, w, "digits where an IP is sent, and only there");
	if (unknown < w->n &&
	    !parse_digits(w->word + unknown, w->n - unknown, 16, &packet->u.ip.ip))
		return expected(parser, w, "hexadecimal digits");
	next(w);
	if (w->n == 16 && is_hex(w))
		next(w);
	return 0;
}

/* The compression that sends so many bits (48: sign-extended); -1 when there is none. */
static int compression(unsigned bits)
{
	return bits == 0    ? PTAH_IPC_SUPPRESSED
	       : bits == 16 ? PTAH_IPC_UPDATE_16
	       : bits == 32 ? PTAH_IPC_UPDATE_32
	       : bits == 48 ? PTAH_IPC_SEXT_48
	       : bits == 64 ? PTAH_IPC_FULL
			    : -1;
}

#define NO_SUFFIX 255

/* An address, compressed to `bits` bits, or as far as the last IP allows. */
static int parse_address(struct ptah_packet_parser *parser, struct words *w,
			 struct ptah_packet *packet, unsigned bits)
{
	uint64_t ip, last_ip = parser->last_ip;
	int ipc;

	if (!parse_number(w, &ip) || (ip && !begins(w->word, w->n, "0x")))
		return expected(parser, w, packet_entries[packet->type].text);
	if (bits == NO_SUFFIX) {
		if (parser->whole_ip)
			last_ip = ~ip;
		packet->u.ip.ipc = (uint8_t)ptah_packet_compress_ip(&last_ip, ip, &packet->u.ip.ip);
		next(w);
		return 0;
	}
	ipc = compression(bits);
	if (ipc <= PTAH_IPC_SUPPRESSED)
		return expected(parser, w, "no address behind .0, or one of .16, .32, .48, .64");
	packet->u.ip.ipc = (uint8_t)ipc;
	packet->u.ip.ip = bits < 64 ? ip & ((UINT64_C(1) << bits) - 1) : ip;
	if (packet_expand_ip(last_ip, packet->u.ip.ipc, packet->u.ip.ip) != ip)
		return expected(parser, w, "an address that so many bits reach from the last IP");
	next(w);
	return 0;
}

static int parse_ip(struct ptah_packet_parser *parser, struct words *w, struct ptah_packet *packet,
		    unsigned bits)
{
	if (!w->n || is_word(w, ".bytes")) {
		packet->u.ip.ipc = PTAH_IPC_SUPPRESSED;
		if (bits == NO_SUFFIX || bits == 0)
			return 0;
		return expected(parser, w, "an address (0x401000)");
	}
	if (bits == NO_SUFFIX && w->n == 2 && w->word[1] == ':' && w->word[0] >= '0' &&
	    w->word[0] <= '7')
		return parse_sent_ip(parser, w, packet);
	return parse_address(parser, w, packet, bits);
}

/* Bytes of an operand or item: by the suffix; or 8 when the number needs them or has more than 8
 * hexadecimal digits; or `chosen`, where that is known. */
static int choose_size(struct ptah_packet_parser *parser, const struct words *name, unsigned suffix,
		       unsigned digits, uint64_t payload, unsigned chosen)
{
	if (suffix == 4 || suffix == 8)
		return (int)suffix;
	if (suffix != NO_SUFFIX)
		return expected(parser, name, ".4 or .8");
	if (digits > 8 || payload > UINT32_MAX)
		return 8;
	return chosen ? (int)chosen : 4;
}

/* The size of the items that BBP has announced; 0: none. */
static unsigned item_size(const struct ptah_packet_parser *parser)
{
	return parser->block == PTAH_BLOCK_ITEMS_4   ? 4
	       : parser->block == PTAH_BLOCK_ITEMS_8 ? 8
						     : 0;
}

/* Sets what follows from the text: which optional fields exist, how many bytes a number has. */
static int finish_parsed_packet(struct ptah_packet_parser *parser, const struct words *name,
				unsigned suffix, struct ptah_packet *packet,
				const struct shape *shape)
{
	const struct packet_field *fields = packet_entries[packet->type].fields;
	bool sized = false;

	for (unsigned i = 0; fields[i].kind; i++) {
		if (fields[i].present)
			((uint8_t *)packet)[fields[i].present] = shape->given >> i & 1;
		if (fields[i].size) {
			int size =
			    choose_size(parser, name, suffix, shape->digits,
					packet_get_field(packet, &fields[i]),
					packet->type == PTAH_PACKET_BIP ? item_size(parser) : 0);

			if (size < 0)
				return size;
			((uint8_t *)packet)[fields[i].size] = (uint8_t)size;
			sized = true;
		}
	}
	return sized || suffix == NO_SUFFIX ? 0
					    : expected(parser, name, "a name without an ending");
}

/* Lines */

/* The packet's type; a suffix ".48" goes to *suffix. -1: no such packet. */
static int find_name(const struct words *w, unsigned *suffix)
{
	size_t best = 0;
	int type = -1;

	*suffix = NO_SUFFIX;
	for (unsigned i = 0; i < PTAH_PACKET_TYPE_MAX; i++) {
		size_t n = begins(w->word, w->n, packet_entries[i].name);

		if (n > best && (n == w->n || w->word[n] == '.')) {
			best = n;
			type = (int)i;
		}
	}
	if (type >= 0 && best < w->n) {
		uint64_t value;

		if (w->n - best > 3 ||
		    !parse_digits(w->word + best + 1, w->n - best - 1, 10, &value))
			return -1;
		*suffix = (unsigned)value;
	}
	if (is_word(w, "stop"))
		return PTAH_PACKET_STOP;
	return is_word(w, "tnt") ? PTAH_PACKET_TNT_8 : type;
}

static bool is_ip_packet(unsigned type)
{
	return type == PTAH_PACKET_TIP || type == PTAH_PACKET_TIP_PGE ||
	       type == PTAH_PACKET_TIP_PGD || type == PTAH_PACKET_FUP;
}

static int parse_payload(struct ptah_packet_parser *parser, struct words *w,
			 struct ptah_packet *packet, const struct words *name, unsigned suffix)
{
	struct shape shape = {0};
	int status;

	if (is_ip_packet(packet->type))
		return parse_ip(parser, w, packet, suffix);
	if (packet->type == PTAH_PACKET_TNT_8 || packet->type == PTAH_PACKET_TNT_64)
		status = parse_outcomes(parser, w, packet, is_word(name, "tnt"));
	else if (!packet_entries[packet->type].fields[0].kind)
		status = 0;
	else
		status = parse_fields(parser, w, packet, &shape);
	return status < 0 ? status : finish_parsed_packet(parser, name, suffix, packet, &shape);
}

/* ".bytes 02 a3": pairs of digits up to the end of the line. */
static int parse_bytes(struct ptah_packet_parser *parser, struct words *w, uint8_t *bytes, size_t n)
{
	size_t size = 0;

	next(w);
	if (!w->n)
		return expected(parser, w, "bytes, two hexadecimal digits each");
	for (; w->n; next(w)) {
		if (w->n % 2 || !is_hex(w))
			return expected(parser, w, "bytes, two hexadecimal digits each");
		for (size_t i = 0; i < w->n; i += 2) {
			if (size == n)
				return PTAH_E_NOSPACE;
			bytes[size++] = (uint8_t)(digit(w->word[i]) << 4 | digit(w->word[i + 1]));
		}
	}
	return (int)size;
}

/* The bytes that a packet shall have instead of those of the encoder. They must mean the same. */
static int parse_wire_bytes(struct ptah_packet_parser *parser, struct words *w,
			    const struct ptah_packet *packet, uint8_t *bytes, size_t n)
{
	uint8_t wanted[PTAH_PACKET_MAX_SIZE], got[PTAH_PACKET_MAX_SIZE];
	int want = ptah_packet_encode(packet, wanted, sizeof(wanted));
	const struct words at = *w;
	struct ptah_packet other;
	unsigned block = PTAH_BLOCK_NONE;
	int size = parse_bytes(parser, w, bytes, n);

	if (size < 0)
		return size;
	if (packet->type == PTAH_PACKET_BIP)
		block = packet->u.bip.item_size == 4 ? PTAH_BLOCK_ITEMS_4 : PTAH_BLOCK_ITEMS_8;
	if (ptah_packet_decode(&other, bytes, (size_t)size, block) == size) {
		other.size = 0; /* CYC: the shortest form */
		if (ptah_packet_encode(&other, got, sizeof(got)) == want &&
		    !memcmp(wanted, got, (size_t)want))
			return size;
	}
	return expected(parser, &at, "bytes of the packet that stands before them");
}

/* Keeps what the following packets depend on: the last IP and the block state. */
static void advance(struct ptah_packet_parser *parser, const struct ptah_packet *packet)
{
	uint64_t ip;

	if (packet->type == PTAH_PACKET_OVF) {
		parser->whole_ip = true;
	} else if (packet->type == PTAH_PACKET_PSB) {
		parser->last_ip = 0;
		parser->whole_ip = false;
	} else if (is_ip_packet(packet->type) &&
		   ptah_packet_ip(&parser->last_ip, packet->u.ip.ipc, packet->u.ip.ip, &ip)) {
		parser->whole_ip = false;
	}
	parser->block = ptah_packet_block_state(packet, parser->block);
}

/* 16 digits as `ptah dump` prints them, or any number before a colon. */
static bool is_offset(const struct words *w)
{
	struct words number = *w;
	uint64_t value;

	if (w->n == 16 && is_hex(w))
		return true;
	if (w->n < 2 || w->word[w->n - 1] != ':')
		return false;
	number.n--;
	return is_hex(&number) || parse_number(&number, &value);
}

static int parse_packet(struct ptah_packet_parser *parser, struct words *w, uint8_t *bytes,
			size_t n)
{
	struct ptah_packet packet;
	struct words name = *w;
	unsigned suffix;
	int status, type = find_name(w, &suffix);

	if (type < 0)
		return expected(parser, w, "a packet's name (PSB, TIP.PGE, TNT, ...) or .bytes");
	memset(&packet, 0, sizeof(packet));
	packet.type = (uint8_t)type;
	next(w);
	status = parse_payload(parser, w, &packet, &name, suffix);
	if (status < 0)
		return status;
	status = ptah_packet_encode(&packet, bytes, n);
	if (status == PTAH_E_INVAL)
		return expected(parser, &name, packet_entries[packet.type].text);
	if (status >= 0 && is_word(w, ".bytes"))
		status = parse_wire_bytes(parser, w, &packet, bytes, n);
	else if (status >= 0 && w->n)
		return expected(parser, w, "the end of the line, # and a comment, or .bytes");
	if (status >= 0)
		advance(parser, &packet);
	return status;
}

int ptah_packet_parse(struct ptah_packet_parser *parser, const char *line, uint8_t *bytes, size_t n)
{
	struct words w = {.line = line, .rest = line};

	parser->expected = NULL;
	parser->at = 0;
	next(&w);
	if (!w.n)
		return 0;
	if (is_offset(&w)) {
		next(&w);
		/* The column of `ptah dump --raw-bytes` is skipped: the text has the same bytes. */
		if (w.n && w.n % 2 == 0 && is_hex(&w))
			next(&w);
	}
	if (!is_word(&w, ".bytes"))
		return parse_packet(parser, &w, bytes, n);
	parser->block = PTAH_BLOCK_NONE;
	return parse_bytes(parser, &w, bytes, n);
}
