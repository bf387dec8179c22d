/* SPDX-License-Identifier: MIT */
/* The screen of ptah live. */
#ifndef PTAH_CLI_LIVE_SCREEN_H
#define PTAH_CLI_LIVE_SCREEN_H

#include "live_view.h"

struct live_screen;

/*
 * Takes over a terminal: what is shown goes to `out`, keys come from `in`. NULL: it is not one on
 * which a screen can be shown. The view must stay.
 */
struct live_screen *live_screen_new(struct live_view *view, int out, int in, bool color);

/* Gives the terminal back as it was. NULL does nothing. */
void live_screen_free(struct live_screen *s);

/* Shows what has been measured, unless the display is paused. */
void live_screen_show(struct live_screen *s);

/* Obeys the keys that have been pressed. false: the screen is to end. */
bool live_screen_keys(struct live_screen *s);

#endif
