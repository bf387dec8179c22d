/* SPDX-License-Identifier: MIT */
/*
 * Samples out of items: which instructions and branches of a stream become samples, with their call
 * chains and their last branches.
 */
#ifndef PTAH_EXPORT_INJECT_SAMPLES_H
#define PTAH_EXPORT_INJECT_SAMPLES_H

#include "export/inject.h"
#include "perfdata/writer.h"

/* The events that the samples belong to, and how samples are written. */
struct sample_output {
	struct perfdata_writer *writer;
	struct inject *inject;
	uint64_t sample_type; /* fields that all samples have */
	uint64_t instructions_id, branches_id;
	uint64_t no_time; /* the time of what has none */
};

struct sampler;

int sampler_new(struct sample_output *output, struct sampler **sampler);
void sampler_free(struct sampler *sampler);

/* Reads a stream to its end. Returns 0, or an error; the writer may have failed. */
int sampler_read(struct sampler *sampler, size_t stream);

#endif
