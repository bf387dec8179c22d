/* SPDX-License-Identifier: MIT */
/* Escapes text for XML 1.0 (xml.h). */
#include "export/xml.h"

#include "base/text.h"

static void put_character(struct out *out, uint32_t character, const char *bytes, size_t n)
{
	switch (character) {
	case '&':
		out_text(out, "&amp;");
		break;
	case '<':
		out_text(out, "&lt;");
		break;
	case '>':
		out_text(out, "&gt;");
		break;
	case '"':
		out_text(out, "&quot;");
		break;
	case '\t':
	case '\n':
	case '\r':
		out_char(out, ' ');
		break;
	case 0xfffe: /* XML 1.0 has no such characters */
	case 0xffff:
		out_text(out, "\xef\xbf\xbd");
		break;
	default:
		if (text_is_harmful(character))
			out_text(out, "\xef\xbf\xbd");
		else
			out_bytes(out, bytes, n);
		break;
	}
}

void xml_text(struct out *out, const char *text)
{
	xml_text_cut(out, text, SIZE_MAX);
}

void xml_text_cut(struct out *out, const char *text, size_t most)
{
	const char *from = text;
	size_t n, count = 0, keep = most;

	for (; *from && count <= most; from += n, count++)
		text_character(from, &n);
	if (count > most)
		keep = most > 2 ? most - 2 : 0;
	for (count = 0; *text && count < keep; text += n, count++) {
		const uint32_t character = text_character(text, &n);

		put_character(out, character, text, n);
	}
	if (keep < most && most >= 2)
		out_text(out, "..");
}
