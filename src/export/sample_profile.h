/* SPDX-License-Identifier: MIT */
/*
 * The inputs of the tools that make profiles for -fprofile-sample-use and -fauto-profile. Both are
 * lists of straight runs (START-LAST:COUNT) and taken branches (FROM->TO:COUNT), each with its
 * length before it. They differ in what addresses are counted from.
 */
#ifndef PTAH_EXPORT_SAMPLE_PROFILE_H
#define PTAH_EXPORT_SAMPLE_PROFILE_H

#include "export/address_profile.h"
#include "output/out.h"

/* `create_llvm_prof --profiler=text` and `create_gcov --profiler=text`: from the first segment of
 * the file. */
int autofdo_write(struct out *out, const struct address_profile *profile);

/* `llvm-profgen --unsymbolized-profile`: from the first executable segment. */
int llvm_profgen_write(struct out *out, const struct address_profile *profile);

#endif
