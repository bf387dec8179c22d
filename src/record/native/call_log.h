/* SPDX-License-Identifier: MIT */
/*
 * The recorder's side of the logs of system calls: takes what threads have written. The logs belong
 * to the recorded programs as much as to us: an entry is copied before it is looked at, and one that
 * makes no sense ends what is taken of its log.
 */
#ifndef PTAH_RECORD_NATIVE_CALL_LOG_H
#define PTAH_RECORD_NATIVE_CALL_LOG_H

struct recording;

/* Takes what all threads have logged, and writes or keeps it (call_samples.h). */
void native_take_calls(struct recording *r);

#endif
