/* SPDX-License-Identifier: MIT */
/*
 * Proves of LLDB's trace bundles: any trace.json is read or refused, and whoever is refused gets a
 * message that names the file. What is read has a trace.
 *
 * Input: trace.json.
 */
#include "fuzz.h"

#include "traceset/set.h"

#include <unistd.h>

static char folder[64], description[80];

static void remove_folder(void)
{
	unlink(description);
	rmdir(folder);
}

static void make_folder(void)
{
	if (*folder)
		return;
	strcpy(folder, "/tmp/ptah-fuzz-XXXXXX");
	CHECK(mkdtemp(folder));
	snprintf(description, sizeof(description), "%s/trace.json", folder);
	atexit(remove_folder);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct ptah_message why = {""};
	struct ptah_trace_set *set;
	FILE *f;
	int status;

	make_folder();
	f = fopen(description, "w");
	CHECK(f && fwrite(data, 1, size, f) == size && !fclose(f));
	status = ptah_trace_set_open(folder, &set, &why);
	CHECK(status <= 0);
	if (status < 0) {
		CHECK(status == PTAH_E_NOMEM || strstr(why.text, "trace.json"));
		return 0;
	}
	CHECK(set->stream_count && set->streams[0].file.path[0] == '/');
	for (size_t i = 0; i < set->code_count; i++)
		CHECK(set->code[i].file.path[0] == '/' && set->code[i].build_id_size <= 20);
	ptah_trace_set_free(set);
	return 0;
}
