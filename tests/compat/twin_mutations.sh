# SPDX-License-Identifier: MIT
# Every client over damaged traces gets the same answers, errors included. Clients that
# follow code make a limited number of calls in each. At night there are five times as many mutations.
. "$PTAH_SOURCE/tests/compat/common.sh"

times=${PTAH_NIGHTLY:+5}
: "${times:=1}"
set -- "$PTAH_SOURCE"/tests/golden/*.txt
same --clients packet,query,event --mutate 1:$((4 * times)) "$@"
same --clients insn,block --mutate 7:$times --limit 2000 "$@"
[ -d "$PTAH_SHARED/traces" ] || { echo "no traces of real processors here"; exit 0; }
for pt in "$PTAH_SHARED"/traces/*.pt; do
	case $pt in
	*/mruby.pt) n=1 ;; # is forty times as long
	*) n=8 ;;
	esac
	same --clients packet,query,event --mutate 1:$((n * times)) --pages "${pt%.pt}" "$pt"
	same --clients packet,query,event --mutate 2:$((n * times)) --timed --pages "${pt%.pt}" "$pt"
	same --clients insn,block --mutate 1:$((4 * times)) --limit 20000 --pages "${pt%.pt}" "$pt"
	same --clients insn,block --mutate 2:$((2 * times)) --limit 20000 --timed --pages "${pt%.pt}" "$pt"
done
