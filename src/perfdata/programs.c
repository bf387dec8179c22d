/* SPDX-License-Identifier: MIT */
/* Reads the programs of BPF that perf keeps in the header: their code and where it lay. */
#include "perfdata/file.h"

/* The array of `n` bytes whose offset in the data is at `at` of the info. NULL: it is not there. */
static const uint8_t *find_array(const uint8_t *info, struct reader data, size_t at, uint64_t n)
{
	const uint64_t offset = load_le64(info + at);

	return reader_bytes(&data, offset) ? reader_bytes(&data, n) : NULL;
}

static bool describe(const uint8_t *info, struct reader data, uint64_t arrays,
		     struct perfdata_program *p)
{
	const uint64_t needed = PERFDATA_BPF_ARRAY_CODE | PERFDATA_BPF_ARRAY_KSYMS;
	const uint32_t sizes = load_le32(info + PERFDATA_BPF_AT_LENGTHS_COUNT);

	*p = (struct perfdata_program){
	    .id = load_le32(info + PERFDATA_BPF_AT_ID),
	    .count = load_le32(info + PERFDATA_BPF_AT_KSYM_COUNT),
	    .code_size = load_le32(info + PERFDATA_BPF_AT_CODE_SIZE),
	};
	if ((arrays & needed) != needed)
		return false;
	p->code = find_array(info, data, PERFDATA_BPF_AT_CODE, p->code_size);
	p->addresses = find_array(info, data, PERFDATA_BPF_AT_KSYMS, 8 * (uint64_t)p->count);
	if (arrays & PERFDATA_BPF_ARRAY_LENGTHS && sizes == p->count)
		p->sizes = find_array(info, data, PERFDATA_BPF_AT_LENGTHS, 4 * (uint64_t)sizes);
	return p->code && p->addresses && (p->sizes || p->count == 1);
}

bool perfdata_next_program(const struct perfdata_file *f, size_t *at, struct perfdata_program *p)
{
	struct reader r = f->programs;

	/* The number of programs comes first; where they end says the same. */
	if (!r.p || !reader_bytes(&r, *at ? *at : 4))
		return false;
	while (r.p < r.end) {
		const uint32_t info_size = reader_u32(&r), data_size = reader_u32(&r);
		const uint64_t arrays = reader_u64(&r);
		const uint8_t *info = reader_bytes(&r, info_size);
		const uint8_t *data = reader_bytes(&r, data_size);

		if (r.failed)
			return false;
		*at = (size_t)(r.p - f->programs.p);
		if (info_size >= PERFDATA_BPF_INFO_MIN &&
		    describe(info, (struct reader){data, data + data_size, false}, arrays, p))
			return true;
	}
	return false;
}
