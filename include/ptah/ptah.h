/* SPDX-License-Identifier: MIT */
/* All of Ptah's public headers. */
#ifndef PTAH_PTAH_H
#define PTAH_PTAH_H

#include <ptah/base.h>
#include <ptah/calls.h>
#include <ptah/counts.h>
#include <ptah/event.h>
#include <ptah/flow.h>
#include <ptah/image.h>
#include <ptah/live.h>
#include <ptah/packet.h>
#include <ptah/profile.h>
#include <ptah/record.h>
#include <ptah/recording.h>
#include <ptah/session.h>
#include <ptah/symbol.h>
#include <ptah/trace_set.h>
#include <ptah/waits.h>

#endif
