/* SPDX-License-Identifier: MIT */
/* Reads a recording in order, through a simulated branch predictor. */
#ifndef PTAH_CLI_READ_OUTCOMES_H
#define PTAH_CLI_READ_OUTCOMES_H

#include "input.h"
#include "output/outcomes.h"

/* Reads the streams that input_wants(), and shows the progress. Returns 0 or an error. */
int input_outcomes(const struct input *input, const struct ptah_session *session,
		   struct outcomes *outcomes);

#endif
