/* SPDX-License-Identifier: MIT */
/* Reads records that come one by one, while they are being recorded. */
#include "perfdata/file.h"

#include <stdlib.h>
#include <string.h>

int perfdata_open_pushed(const char *name, struct perfdata_file **file)
{
	struct perfdata_file *f = calloc(1, sizeof(*f));

	if (!f)
		return PTAH_E_NOMEM;
	f->pipe = true;
	f->path = strdup(name);
	if (!f->path) {
		free(f);
		return PTAH_E_NOMEM;
	}
	*file = f;
	return 0;
}

/* Whether the recording, or what is made of the record, refers to its bytes. */
static bool is_kept(const struct perfdata_record *r)
{
	switch (r->type) {
	case PERFDATA_HEADER_ATTR:
	case PERFDATA_HEADER_FEATURE:
	case PERFDATA_EVENT_UPDATE:
	case PERFDATA_HEADER_BUILD_ID:
	case PERFDATA_AUXTRACE_INFO:
	case PERFDATA_TEXT_POKE:
		return true;
	case PERFDATA_HEADER_EVENT_TYPE:
		return r->tag == PERFDATA_PTAH_CODE || r->tag == PERFDATA_PTAH_VDSO ||
		       r->tag == PERFDATA_PTAH_PAGE;
	default:
		return false;
	}
}

/*
 * The size that the record's header says; 0: not all of it is there. What TRACING_DATA describes
 * may come with it.
 */
static size_t whole_size(const uint8_t *bytes, size_t size)
{
	const size_t own = size < PERFDATA_RECORD_HEADER ? 0 : load_le16(bytes + 6);

	if (own == size ||
	    (own >= 12 && own < size && load_le32(bytes) == PERFDATA_HEADER_TRACING_DATA &&
	     ((load_le32(bytes + 8) + UINT64_C(7)) & ~UINT64_C(7)) == size - own))
		return own;
	return 0;
}

static int bad(const struct perfdata_file *f, struct ptah_message *why, const char *what)
{
	return perfdata_message(why, PTAH_E_BAD_FILE, "%s: %s", f->path, what);
}

int perfdata_push(struct perfdata_file *f, const uint8_t *bytes, size_t size,
		  struct perfdata_record *record, bool *keep, struct ptah_message *why)
{
	const size_t own = whole_size(bytes, size);
	struct reader r = {bytes + PERFDATA_RECORD_HEADER, bytes + own, false};
	bool useful;
	int status;

	*keep = false;
	if (own < PERFDATA_RECORD_HEADER)
		return bad(f, why, "a record whose size is not its own");
	memset(record, 0, sizeof(*record));
	record->type = load_le32(bytes);
	record->raw = bytes;
	record->raw_size = (uint16_t)own;
	record->pid = record->tid = record->ppid = record->ptid = record->cpu = -1;
	if (record->type == PERFDATA_COMPRESSED || record->type == PERFDATA_COMPRESSED2)
		return perfdata_message(why, PTAH_E_FOREIGN,
					"%s: compressed records are not followed while they come; "
					"record without -z",
					f->path);
	useful = perfdata_read_record(f, &r, load_le16(bytes + 4), record);
	status = r.failed ? 0 : perfdata_read_piped(f, &r, bytes, record->type, why);
	if (status < 0 && status != PTAH_E_BAD_FILE)
		return status;
	if (r.failed || status < 0)
		return bad(f, why, "a record that ends too early");
	*keep = is_kept(record);
	return useful;
}

void perfdata_cut_pushed(struct perfdata_file *f)
{
	f->truncated = true;
}
