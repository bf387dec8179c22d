#!/bin/sh
# SPDX-License-Identifier: MIT
# No include and no call goes to a layer above, and the check notices one that does.
set -eu

"$PTAH_SOURCE/tools/check-layers"
"$PTAH_SOURCE/tools/check-layers" --calls "$PTAH_BUILD"

# The check must fail on a tree that breaks the rule, in each way, and name the place.
rm -rf tree
expect_offence() { # FILE, its include line, what must be printed
	rm -rf tree
	mkdir -p "tree/$(dirname "$1")" tree/src/base
	echo '#include <stddef.h>' >tree/src/base/fine.h
	printf '/* a line */\n%s\n' "$2" >"tree/$1"
	if "$PTAH_SOURCE/tools/check-layers" tree >said; then
		echo "not noticed: $1 with $2"
		exit 1
	fi
	grep -F "$3" said || { cat said; exit 1; }
}
expect_offence src/packet/x.c '#include "flow/code.h"' 'src/packet/x.c:2: layer packet may not use'
expect_offence src/base/x.h '#	include "packet/ip.h"' 'layer base'
expect_offence src/packet/x.c '#include <ptah/flow.h>' 'layer packet'
expect_offence src/event/x.c '  #include  "image/x.h"' 'layer event'
expect_offence src/x86/x.c '#include "event/event.h"' 'layer x86'
expect_offence src/perfdata/x.c '#include "session/x.h"' 'layer perfdata'
expect_offence include/ptah/packet.h '#include <ptah/event.h>' 'include/ptah/packet.h:2'
expect_offence src/symbol/x.c '#include <ptah/ptah.h>' 'layer symbol'
expect_offence compat/libipt/x.c '#include "flow/code.h"' 'compat/libipt/x.c:2: layer compat may not use'
expect_offence src/flow/x.c '#include "compat/libipt/image.h"' 'layer compat'
expect_offence cli/x.c '#include "compat/libipt/image.h"' 'layer compat'
expect_offence cli/cmds/x.c '#include "event/time.h"' 'may not use the private event/time.h'
expect_offence src/output/x.c '#include "session/session.h"' 'may not use the private session/session.h'
expect_offence src/nowhere/x.c '#include "base/fine.h"' 'not in tools/layers.txt'

# A call to a layer above, without an include.
mkdir -p calls/src/base calls/src/flow calls/compat/libipt
touch calls/src/base/lower.c calls/src/flow/upper.c calls/compat/libipt/outer.c
mkdir -p calls/CMakeFiles/x-objects.dir/src/base calls/CMakeFiles/x-objects.dir/src/flow
echo 'int upper(void); int lower(void); int lower(void) { return upper(); }' |
	"$CC" -x c -c -o calls/CMakeFiles/x-objects.dir/src/base/lower.c.o -
echo 'int upper(void); int upper(void) { return 1; }' |
	"$CC" -x c -c -o calls/CMakeFiles/x-objects.dir/src/flow/upper.c.o -
if "$PTAH_SOURCE/tools/check-layers" --calls calls calls >said; then
	echo "an upward call was not noticed"
	exit 1
fi
grep -F 'base/lower.c.o: layer base may not use upper of layer flow' said

# The object of a deleted source is ignored.
rm calls/src/base/lower.c
"$PTAH_SOURCE/tools/check-layers" --calls calls calls

# Code that uses the public headers alone calls only what they declare.
mkdir -p calls/compat/libipt/CMakeFiles/ptah-libipt.dir
rm calls/CMakeFiles/x-objects.dir/src/base/lower.c.o
echo 'int upper(void); int outer(void); int outer(void) { return upper(); }' |
	"$CC" -x c -c -o calls/compat/libipt/CMakeFiles/ptah-libipt.dir/outer.c.o -
if "$PTAH_SOURCE/tools/check-layers" --calls calls calls >said; then
	echo "a call past the public headers was not noticed"
	exit 1
fi
grep -F 'outer.c.o: layer compat may not use the private upper of layer flow' said
