/* SPDX-License-Identifier: MIT */
/* The reason for which a recorder has failed. */
#ifndef PTAH_TESTS_RECORD_PROBLEM_OF_H
#define PTAH_TESTS_RECORD_PROBLEM_OF_H

#include <ptah/record.h>

static inline enum ptah_record_problem problem_of(const struct ptah_recorder *r)
{
	enum ptah_record_problem problem;

	ptah_recorder_why(r, &problem);
	return problem;
}

#endif
