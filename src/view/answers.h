/* SPDX-License-Identifier: MIT */
/* The makers of answers, which answers.c lists (struct view_answer_kind). */
#ifndef PTAH_VIEW_ANSWERS_H
#define PTAH_VIEW_ANSWERS_H

#include "view/model.h"

#define VIEW_ANSWER(name)                                                                          \
	int view_answer_##name(struct view_model *model, const struct view_query *query,           \
			       struct view_reply *reply)

VIEW_ANSWER(info);	/* answers_info.c */
VIEW_ANSWER(functions); /* answers_functions.c */
VIEW_ANSWER(bars);	/* answers_bars.c */
VIEW_ANSWER(marks);
VIEW_ANSWER(turns);  /* cpus.c */
VIEW_ANSWER(call);   /* answers_call.c */
VIEW_ANSWER(events); /* answers_events.c */
VIEW_ANSWER(waits);  /* answers_waits.c */
VIEW_ANSWER(flame);  /* answers_flame.c */
VIEW_ANSWER(histogram);
VIEW_ANSWER(sources); /* answers_source.c */
VIEW_ANSWER(source);
VIEW_ANSWER(code);
VIEW_ANSWER(coverage);
VIEW_ANSWER(diff_functions); /* answers_diff.c */
VIEW_ANSWER(diff_flame);
VIEW_ANSWER(diff_lines);

#endif
