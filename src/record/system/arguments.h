/* SPDX-License-Identifier: MIT */
/* The arguments of the plugin: -plugin
 * ptah-system.so,model=NAME,truth=FILE,tsc=MHZ,xsaves=on,verbose=on. */
#ifndef PTAH_RECORD_SYSTEM_ARGUMENTS_H
#define PTAH_RECORD_SYSTEM_ARGUMENTS_H

#include <ptah/model/model.h>

#include <stdbool.h>
#include <stddef.h>

struct system_arguments {
	const struct ptah_model_processor *processor; /* model=NAME */
	const char *truth;			      /* truth=FILE; NULL: none */
	unsigned tsc_mhz;			      /* tsc=MHZ; 0: the host's frequency */
	bool xsaves;				      /* xsaves=on */
	bool verbose;				      /* verbose=on */
	bool records;				      /* record=N: */
	int recorder; /* the socket of the recorder that records the guest from outside */
};

/*
 * Reads the arguments as QEMU passes them, "name=value" each; the strings must remain. False: one
 * of them is wrong, and `error` (n bytes) contains a sentence about it.
 */
bool system_arguments(struct system_arguments *a, int count, char **values, char *error, size_t n);

#endif
