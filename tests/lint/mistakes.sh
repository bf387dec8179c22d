#!/bin/sh
# SPDX-License-Identifier: MIT
# Each deliberate mistake in tools/engine-mistakes still fits the engine's source.
set -eu

"$PTAH_SOURCE/tools/mutate-engine" --fit
