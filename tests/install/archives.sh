#!/bin/sh
# SPDX-License-Identifier: MIT
# Programs build with the freestanding archives alone, found by pkg-config: an
# engine on a simulated processor, and an engine on the null port.
set -eu
. "$PTAH_SOURCE/tests/install/common.sh"

cat >engine.c <<'END'
#include "board.h"

#include <ptah/engine/engine.h>

#include <stdio.h>

int main(void)
{
	struct ptah_trace_config trace;
	struct ptah_capture_config config = {.size = sizeof(config), .trace = &trace};
	struct ptah_capture *capture;
	struct ptah_engine *engine;
	uint64_t dropped, position;
	struct board board;
	struct ptah_model *m;

	if (board_open(&board, "ice-lake", 1) < 0 ||
	    ptah_engine_new(&board.hal, board.machine, &engine) < 0)
		return 1;
	m = ptah_machine_model(board.machine, 0);
	ptah_trace_config_default(ptah_engine_caps(engine, 0), &trace);
	if (ptah_capture_new(engine, &config, &capture, NULL) < 0 ||
	    ptah_capture_start(capture) < 0)
		return 1;
	ptah_machine_put(board.machine, 0, (const uint8_t *)"sixteen bytes ..", 16);
	ptah_capture_stop(capture);
	position = ptah_capture_position(capture);
	ptah_capture_free(capture);
	/* As many as the processor says. */
	if (position < 16 || position != ptah_model_output_bytes(m, &dropped) || dropped)
		return 1;
	return ptah_engine_free(engine) < 0 || !board_close(&board);
}
END
# shellcheck disable=SC2046,SC2086
"$PTAH_CC" -std=c11 -Wall -Wextra -Werror $sanitize -I"$PTAH_SOURCE/examples" -o engine engine.c \
	$(pkg-config --cflags --libs ptah-engine ptah-model)
./engine

# shellcheck disable=SC2046
"$PTAH_CC" -std=c11 -Wall -Wextra -Werror -ffreestanding -fno-builtin -fno-stack-protector -static \
	-nostdlib -Wl,-e,ptah_start -o null "$PTAH_SOURCE"/port/null/*.c \
	$(pkg-config --cflags --libs ptah-engine)
