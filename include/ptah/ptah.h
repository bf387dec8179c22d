/* SPDX-License-Identifier: MIT */
/* All of Ptah's public headers. */
#ifndef PTAH_PTAH_H
#define PTAH_PTAH_H

#include <ptah/call_reader.h>
#include <ptah/call_tree.h>
#include <ptah/calls.h>
#include <ptah/caps.h>
#include <ptah/capture_page.h>
#include <ptah/captures.h>
#include <ptah/counts.h>
#include <ptah/coverage.h>
#include <ptah/cpu.h>
#include <ptah/engine.h>
#include <ptah/errata.h>
#include <ptah/error.h>
#include <ptah/event.h>
#include <ptah/filter.h>
#include <ptah/flow.h>
#include <ptah/function.h>
#include <ptah/functions.h>
#include <ptah/hal.h>
#include <ptah/host.h>
#include <ptah/image.h>
#include <ptah/live.h>
#include <ptah/machine.h>
#include <ptah/model.h>
#include <ptah/packet.h>
#include <ptah/packet_clock.h>
#include <ptah/profile.h>
#include <ptah/query.h>
#include <ptah/record.h>
#include <ptah/recording.h>
#include <ptah/rtit.h>
#include <ptah/sample.h>
#include <ptah/segments.h>
#include <ptah/session.h>
#include <ptah/shard.h>
#include <ptah/symbol.h>
#include <ptah/syscall.h>
#include <ptah/trace_config.h>
#include <ptah/trace_set.h>
#include <ptah/version.h>
#include <ptah/vm.h>
#include <ptah/waits.h>
#include <ptah/window.h>

#endif
