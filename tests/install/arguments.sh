#!/bin/sh
# SPDX-License-Identifier: MIT
# Rules of docs/api.md, for every function that the headers declare: what returns a status takes
# NULL for every argument without a crash, and what destroys an object does nothing for NULL.
set -eu
. "$PTAH_SOURCE/tests/install/common.sh"

# Functions that return an int. Those of packets, of the simulated processor, and of the engine's
# interrupt check nothing: they are called too often, or where no error can be reported.
for header in root/usr/include/ptah/*.h root/usr/include/ptah/engine/*.h; do
	tr '\n' ' ' <"$header" | sed 's/PTAH_API/\n/g; s/;/\n/g; s|\*/|\n|g'
	echo
done | sed -nE 's/^ *(int ptah_[a-z_0-9]*)\(.*/\1/p
		s/^ *(void ptah_[a-z_]*_(free|close))\(.*/\1/p' |
	grep -vE '^int ptah_(packet_|engine_pmi$)' | cut -d ' ' -f 2 | LC_ALL=C sort -u >functions
[ "$(wc -l <functions)" -gt 100 ] || { echo "only $(wc -l <functions) functions"; exit 1; }
grep -q '^ptah_engine_free$' functions

{
	printf '#include <stdio.h>\n#include <sys/wait.h>\n#include <unistd.h>\n'
	sed 's/.*/void &(void);/' functions
	echo 'static const struct { const char *name; void (*function)(void); } all[] = {'
	sed 's/.*/	{"&", &},/' functions
	cat <<-'END'
	};

	int main(void)
	{
		int bad = 0, status;

		for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
			if (!fork()) {
				((void (*)(void *, void *, void *, void *, void *, void *, void *, void *))
				 all[i].function)(0, 0, 0, 0, 0, 0, 0, 0);
				_exit(0);
			}
			if (wait(&status) < 0 || status) {
				printf("%s: crashes when its arguments are NULL\n", all[i].name);
				bad = 1;
			}
		}
		return bad;
	}
	END
} >call.c
# shellcheck disable=SC2046,SC2086
"$PTAH_CC" -std=gnu11 $sanitize -o call call.c $(pkg-config --cflags --libs ptah ptah-engine ptah-model)
./call
