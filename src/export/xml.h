/* SPDX-License-Identifier: MIT */
/* Text from untrusted files in XML documents. */
#ifndef PTAH_EXPORT_XML_H
#define PTAH_EXPORT_XML_H

#include "output/out.h"

/*
 * Writes text for the content of an element, or an attribute in double quotes: valid UTF-8, in
 * which characters that XML does not allow, or that a terminal would obey, are U+FFFD; tabs and
 * line ends are spaces.
 */
void xml_text(struct out *out, const char *text);

/* At most `most` characters of it; ".." in place of its end where it is longer. */
void xml_text_cut(struct out *out, const char *text, size_t most);

#endif
