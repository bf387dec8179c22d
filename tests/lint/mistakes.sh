#!/bin/sh
# SPDX-License-Identifier: MIT
# The list of deliberate mistakes (tools/engine-mistakes) fits the engine as it is.
set -eu

"$PTAH_SOURCE/tools/mutate-engine" --fit
