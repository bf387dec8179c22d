/* SPDX-License-Identifier: MIT */
/* The list of answers. */
#include "view/answers.h"

const struct view_answer_kind view_answer_kinds[] = {
    {"info", VIEW_JSON, view_answer_info},
    {"functions", VIEW_JSON, view_answer_functions},
    {"bars", VIEW_BINARY, view_answer_bars},
    {"marks", VIEW_BINARY, view_answer_marks},
    {"turns", VIEW_BINARY, view_answer_turns},
    {"call", VIEW_JSON, view_answer_call},
    {"events", VIEW_JSON, view_answer_events},
    {"waits", VIEW_JSON, view_answer_waits},
    {"flame", VIEW_JSON, view_answer_flame},
    {"histogram", VIEW_JSON, view_answer_histogram},
    {"sources", VIEW_JSON, view_answer_sources},
    {"source", VIEW_JSON, view_answer_source},
    {"code", VIEW_JSON, view_answer_code},
    {"coverage", VIEW_JSON, view_answer_coverage},
    {"diff/functions", VIEW_JSON, view_answer_diff_functions},
    {"diff/flame", VIEW_JSON, view_answer_diff_flame},
    {"diff/lines", VIEW_JSON, view_answer_diff_lines},
    {0},
};
