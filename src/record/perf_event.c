/* SPDX-License-Identifier: MIT */
#include "record/recorder.h"

static enum ptah_record_problem check(const struct ptah_record_config *config,
				      struct ptah_message *why)
{
	(void)config;
	return recorder_refuse(why, PTAH_RECORD_NOT_POSSIBLE,
			       "the recorder hardware is not built yet");
}

const struct recorder_backend recorder_hardware = {
    .kind = PTAH_RECORDER_HARDWARE,
    .check = check,
};
