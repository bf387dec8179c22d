# SPDX-License-Identifier: MIT
# Every client over damaged traces gets the same answers, errors included. Clients that
# follow code make a limited number of calls in each.
. "$PTAH_SOURCE/tests/compat/common.sh"

set -- "$PTAH_SOURCE"/tests/golden/*.txt
same --clients packet,query,event --mutate 1:20 "$@"
same --clients insn,block --mutate 7:2 --limit 2000 "$@"
[ -d "$PTAH_SHARED/traces" ] || { echo "no traces of real processors here"; exit 0; }
for pt in "$PTAH_SHARED"/traces/*.pt; do
	case $pt in
	*/mruby.pt) n=4 ;; # is forty times as long
	*) n=40 ;;
	esac
	same --clients packet,query,event --mutate 1:$n --pages "${pt%.pt}" "$pt"
	same --clients packet,query,event --mutate 2:$n --timed --pages "${pt%.pt}" "$pt"
	same --clients insn,block --mutate 1:20 --limit 20000 --pages "${pt%.pt}" "$pt"
	same --clients insn,block --mutate 2:10 --limit 20000 --timed --pages "${pt%.pt}" "$pt"
done
