# SPDX-License-Identifier: MIT
# bash completion of ptah.
# Written by tools/option-docs from the tables of options in cli/.

# The options of a command.
_ptah_options() {
	case $1 in
	record) echo "--output= -o --event= -e --only-during= --filter= --recorder= --vm --symbols= --cr3= --start-at= --stop-at= --pid= -p --tid= -t --all-cpus -a --cpu= -C --per-thread --no-retcomp --long-tnt --truth --time-resolution= --no-syscalls --mark-loops --psb-period= --qemu= --plugin= --no-inherit -i --kcore --no-jit-copies --mmap-pages= -m --snapshot -S --on-crash --on-failure --stop-when-full --buffer= --max-size= --delay= -D --control= --switch-events --clock= --dry-run --no-progress --quiet -q --verbose -v --help -h" ;;
	live) echo "--input= -i --output= -o --every= --for= --format= --limit= -n --sort= --save= --watch= --keep= --on-hit= --hits= --control= --drop --queue= --jobs= -j --command-output= --clock= --no-inherit --buffer= --cover= --cover-format= --per-process --until= --event= -e --only-during= --filter= --recorder= --vm --symbols= --cr3= --start-at= --stop-at= --pid= -p --tid= -t --all-cpus -a --cpu= -C --per-thread --symfs= --buildid-dir= --vmlinux= -k --kallsyms= --color= --quiet -q --no-demangle --debuginfod --no-debuginfod --no-retcomp --long-tnt --truth --time-resolution= --no-syscalls --mark-loops --psb-period= --qemu= --plugin= --help -h" ;;
	report) echo "--blocks --inline --sort= -s --call-graph -g --percent-limit= --stubs --value= --by= --stdio --no-demangle --debuginfod --no-debuginfod --limit= -n --jobs= -j --input= -i --pt= --raw= --elf= --pe= --pages= --filter= --mtc-freq= --nom-freq= --cpuid-0x15= --save-set= --since= --until= --around= --function= --symfs= --buildid-dir= --vmlinux= -k --kallsyms= --force -f --pid= --tid= --comm= --cpu= -C --processor= --errata= --no-tnt --no-retcomp --output= -o --color= --no-pager --format= --no-progress --quiet -q --help -h" ;;
	view) echo "--output= -o --max-size= --no-browser --port= --source-path= --prefix= --prefix-strip= --input= -i --symfs= --buildid-dir= --vmlinux= -k --kallsyms= --force -f --pid= --tid= --comm= --cpu= -C --processor= --errata= --no-tnt --no-retcomp --no-demangle --debuginfod --no-debuginfod --since= --until= --around= --jobs= -j --pt= --raw= --elf= --pe= --pages= --filter= --mtc-freq= --nom-freq= --cpuid-0x15= --save-set= --no-progress --quiet -q --help -h" ;;
	annotate) echo "--symbol= -s --dsos= -d --branches --lines --print-line -l --full-paths -P --no-source --asm-raw --att --full --no-predictor --stdio --limit= -n --source-path= --prefix= --prefix-strip= --no-demangle --debuginfod --no-debuginfod --jobs= -j --input= -i --pt= --raw= --elf= --pe= --pages= --filter= --mtc-freq= --nom-freq= --cpuid-0x15= --save-set= --since= --until= --around= --symfs= --buildid-dir= --vmlinux= -k --kallsyms= --force -f --pid= --tid= --comm= --cpu= -C --processor= --errata= --no-tnt --no-retcomp --output= -o --color= --no-pager --format= --no-progress --quiet -q --help -h" ;;
	calls) echo "--value= --sort= --callers= --callees= --of= --slowest= --why --stubs --limit= -n --no-demangle --debuginfod --no-debuginfod --jobs= -j --input= -i --pt= --raw= --elf= --pe= --pages= --filter= --mtc-freq= --nom-freq= --cpuid-0x15= --save-set= --since= --until= --around= --symfs= --buildid-dir= --vmlinux= -k --kallsyms= --force -f --pid= --tid= --comm= --cpu= -C --processor= --errata= --no-tnt --no-retcomp --output= -o --color= --no-pager --format= --no-progress --quiet -q --help -h" ;;
	waits) echo "--list --folded --sort= --limit= -n --no-demangle --debuginfod --no-debuginfod --jobs= -j --input= -i --pt= --raw= --elf= --pe= --pages= --filter= --mtc-freq= --nom-freq= --cpuid-0x15= --save-set= --since= --until= --around= --symfs= --buildid-dir= --vmlinux= -k --kallsyms= --force -f --pid= --tid= --comm= --cpu= -C --processor= --errata= --no-tnt --no-retcomp --output= -o --color= --no-pager --format= --no-progress --quiet -q --help -h" ;;
	script) echo "--branches --blocks --calls --events --time --last= --srcline --att --no-demangle --debuginfod --no-debuginfod --no-symbols --jobs= -j --input= -i --pt= --raw= --elf= --pe= --pages= --filter= --mtc-freq= --nom-freq= --cpuid-0x15= --save-set= --since= --until= --around= --function= --symfs= --buildid-dir= --vmlinux= -k --kallsyms= --force -f --pid= --tid= --comm= --cpu= -C --processor= --errata= --no-tnt --no-retcomp --output= -o --color= --no-pager --format= --no-progress --quiet -q --help -h" ;;
	stat) echo "--per-thread --jobs= -j --input= -i --pt= --raw= --elf= --pe= --pages= --filter= --mtc-freq= --nom-freq= --cpuid-0x15= --save-set= --since= --until= --around= --symfs= --buildid-dir= --vmlinux= -k --kallsyms= --force -f --pid= --tid= --comm= --cpu= -C --processor= --errata= --no-tnt --no-retcomp --output= -o --color= --no-pager --format= --no-progress --quiet -q --help -h" ;;
	verify) echo "--all --no-demangle --debuginfod --no-debuginfod --jobs= -j --input= -i --pt= --raw= --elf= --pe= --pages= --filter= --mtc-freq= --nom-freq= --cpuid-0x15= --save-set= --symfs= --buildid-dir= --vmlinux= -k --kallsyms= --force -f --pid= --tid= --comm= --cpu= -C --processor= --errata= --no-tnt --no-retcomp --output= -o --color= --no-pager --format= --no-progress --quiet -q --help -h" ;;
	dump) echo "--no-pad --no-timing --packets= --range= --since= --until= --around= --raw-bytes --no-sync --time --jobs= -j --input= -i --pt= --raw= --elf= --pe= --pages= --filter= --mtc-freq= --nom-freq= --cpuid-0x15= --save-set= --symfs= --buildid-dir= --vmlinux= -k --kallsyms= --force -f --pid= --tid= --comm= --cpu= -C --processor= --errata= --no-tnt --no-retcomp --output= -o --color= --no-pager --format= --no-progress --quiet -q --help -h" ;;
	asm) echo "--output= -o --help -h" ;;
	profile) echo "--by= --save= --calls --shard= --limit= -n --no-demangle --debuginfod --no-debuginfod --no-symbols --jobs= -j --input= -i --pt= --raw= --elf= --pe= --pages= --filter= --mtc-freq= --nom-freq= --cpuid-0x15= --save-set= --since= --until= --around= --function= --symfs= --buildid-dir= --vmlinux= -k --kallsyms= --force -f --pid= --tid= --comm= --cpu= -C --processor= --errata= --no-tnt --no-retcomp --output= -o --color= --no-pager --format= --no-progress --quiet -q --help -h" ;;
	merge) echo "--output= -o --partial --keep-processes --no-progress --quiet -q --help -h" ;;
	cover) echo "--format= --map-size= --reached= --no-demangle --debuginfod --no-debuginfod --no-symbols --jobs= -j --input= -i --pt= --raw= --elf= --pe= --pages= --filter= --mtc-freq= --nom-freq= --cpuid-0x15= --save-set= --since= --until= --around= --function= --symfs= --buildid-dir= --vmlinux= -k --kallsyms= --force -f --pid= --tid= --comm= --cpu= -C --processor= --errata= --no-tnt --no-retcomp --output= -o --color= --no-pager --no-progress --quiet -q --help -h" ;;
	export) echo "--to= --clock= --stubs --value= --by= --max-stack= --include= --exclude= --dso= -d --predictor --branches= --no-demangle --debuginfod --no-debuginfod --jobs= -j --input= -i --pt= --raw= --elf= --pe= --pages= --filter= --mtc-freq= --nom-freq= --cpuid-0x15= --save-set= --since= --until= --around= --function= --symfs= --buildid-dir= --vmlinux= -k --kallsyms= --force -f --pid= --tid= --comm= --cpu= -C --processor= --errata= --no-tnt --no-retcomp --output= -o --color= --no-pager --no-progress --quiet -q --help -h" ;;
	inject) echo "--itrace --strip --output= -o --input= -i --jobs= -j --since= --until= --around= --symfs= --buildid-dir= --vmlinux= -k --kallsyms= --force -f --pid= --tid= --comm= --cpu= -C --processor= --errata= --no-tnt --no-retcomp --no-progress --quiet -q --help -h" ;;
	repack) echo "--retcomp --psb-period= --output= -o --input= -i --symfs= --buildid-dir= --vmlinux= -k --kallsyms= --force -f --pid= --tid= --comm= --cpu= -C --processor= --errata= --no-tnt --no-retcomp --no-progress --quiet -q --help -h" ;;
	diff) echo "--by= --ignore= --fail-over= --fail-over-each= --least= --no-demangle --debuginfod --no-debuginfod --limit= -n --jobs= -j --symfs= --buildid-dir= --vmlinux= -k --kallsyms= --force -f --pid= --tid= --comm= --cpu= -C --processor= --errata= --no-tnt --no-retcomp --output= -o --color= --no-pager --format= --no-progress --quiet -q --help -h" ;;
	caps) echo "--model= -m --check --format= --output= -o --color= --no-pager --help -h" ;;
	vm) echo "--model= --truth= --qemu= --plugin= --plugin-arguments= --dry-run --help -h" ;;
	esac
}

# What the value of a command's option can be: file, folder, words, list or
# nothing, and the words. Empty: the option takes no value of its own.
_ptah_value() {
	case $1:$2 in
	record:--output | record:-o | record:--symbols | record:--qemu | record:--plugin | live:--input | \
		live:-i | live:--output | live:-o | live:--save | live:--command-output | live:--cover | \
		live:--symbols | live:--vmlinux | live:-k | live:--kallsyms | live:--qemu | live:--plugin | \
		report:--input | report:-i | report:--pt | report:--raw | report:--elf | report:--pe | \
		report:--pages | report:--save-set | report:--vmlinux | report:-k | report:--kallsyms | \
		report:--output | report:-o | view:--output | view:-o | view:--input | view:-i | view:--vmlinux | \
		view:-k | view:--kallsyms | view:--pt | view:--raw | view:--elf | view:--pe | view:--pages | \
		view:--save-set | annotate:--input | annotate:-i | annotate:--pt | annotate:--raw | \
		annotate:--elf | annotate:--pe | annotate:--pages | annotate:--save-set | annotate:--vmlinux | \
		annotate:-k | annotate:--kallsyms | annotate:--output | annotate:-o | calls:--input | calls:-i | \
		calls:--pt | calls:--raw | calls:--elf | calls:--pe | calls:--pages | calls:--save-set | \
		calls:--vmlinux | calls:-k | calls:--kallsyms | calls:--output | calls:-o | waits:--input | \
		waits:-i | waits:--pt | waits:--raw | waits:--elf | waits:--pe | waits:--pages | \
		waits:--save-set | waits:--vmlinux | waits:-k | waits:--kallsyms | waits:--output | waits:-o | \
		script:--input | script:-i | script:--pt | script:--raw | script:--elf | script:--pe | \
		script:--pages | script:--save-set | script:--vmlinux | script:-k | script:--kallsyms | \
		script:--output | script:-o | stat:--input | stat:-i | stat:--pt | stat:--raw | stat:--elf | \
		stat:--pe | stat:--pages | stat:--save-set | stat:--vmlinux | stat:-k | stat:--kallsyms | \
		stat:--output | stat:-o | verify:--input | verify:-i | verify:--pt | verify:--raw | verify:--elf | \
		verify:--pe | verify:--pages | verify:--save-set | verify:--vmlinux | verify:-k | \
		verify:--kallsyms | verify:--output | verify:-o | dump:--input | dump:-i | dump:--pt | \
		dump:--raw | dump:--elf | dump:--pe | dump:--pages | dump:--save-set | dump:--vmlinux | dump:-k | \
		dump:--kallsyms | dump:--output | dump:-o | asm:--output | asm:-o | profile:--save | \
		profile:--input | profile:-i | profile:--pt | profile:--raw | profile:--elf | profile:--pe | \
		profile:--pages | profile:--save-set | profile:--vmlinux | profile:-k | profile:--kallsyms | \
		profile:--output | profile:-o | merge:--output | merge:-o | cover:--input | cover:-i | \
		cover:--pt | cover:--raw | cover:--elf | cover:--pe | cover:--pages | cover:--save-set | \
		cover:--vmlinux | cover:-k | cover:--kallsyms | cover:--output | cover:-o | export:--dso | \
		export:-d | export:--input | export:-i | export:--pt | export:--raw | export:--elf | export:--pe | \
		export:--pages | export:--save-set | export:--vmlinux | export:-k | export:--kallsyms | \
		export:--output | export:-o | inject:--output | inject:-o | inject:--input | inject:-i | \
		inject:--vmlinux | inject:-k | inject:--kallsyms | repack:--output | repack:-o | repack:--input | \
		repack:-i | repack:--vmlinux | repack:-k | repack:--kallsyms | diff:--vmlinux | diff:-k | \
		diff:--kallsyms | diff:--output | diff:-o | caps:--output | caps:-o | vm:--truth | vm:--qemu | \
		vm:--plugin) echo "file" ;;
	record:--event | record:-e | record:--only-during | record:--filter | record:--cr3 | \
		record:--start-at | record:--stop-at | record:--pid | record:-p | record:--tid | record:-t | \
		record:--cpu | record:-C | record:--time-resolution | record:--psb-period | record:--mmap-pages | \
		record:-m | record:--buffer | record:--max-size | record:--delay | record:-D | record:--control | \
		live:--every | live:--for | live:--limit | live:-n | live:--watch | live:--keep | live:--on-hit | \
		live:--hits | live:--control | live:--queue | live:--jobs | live:-j | live:--buffer | \
		live:--until | live:--event | live:-e | live:--only-during | live:--filter | live:--cr3 | \
		live:--start-at | live:--stop-at | live:--pid | live:-p | live:--tid | live:-t | live:--cpu | \
		live:-C | live:--time-resolution | live:--psb-period | report:--sort | report:-s | \
		report:--percent-limit | report:--limit | report:-n | report:--jobs | report:-j | \
		report:--filter | report:--mtc-freq | report:--nom-freq | report:--cpuid-0x15 | report:--since | \
		report:--until | report:--around | report:--function | report:--pid | report:--tid | \
		report:--comm | report:--cpu | report:-C | report:--processor | view:--max-size | view:--port | \
		view:--prefix-strip | view:--pid | view:--tid | view:--comm | view:--cpu | view:-C | \
		view:--processor | view:--since | view:--until | view:--around | view:--jobs | view:-j | \
		view:--filter | view:--mtc-freq | view:--nom-freq | view:--cpuid-0x15 | annotate:--symbol | \
		annotate:-s | annotate:--dsos | annotate:-d | annotate:--limit | annotate:-n | \
		annotate:--prefix-strip | annotate:--jobs | annotate:-j | annotate:--filter | \
		annotate:--mtc-freq | annotate:--nom-freq | annotate:--cpuid-0x15 | annotate:--since | \
		annotate:--until | annotate:--around | annotate:--pid | annotate:--tid | annotate:--comm | \
		annotate:--cpu | annotate:-C | annotate:--processor | calls:--callers | calls:--callees | \
		calls:--of | calls:--slowest | calls:--limit | calls:-n | calls:--jobs | calls:-j | \
		calls:--filter | calls:--mtc-freq | calls:--nom-freq | calls:--cpuid-0x15 | calls:--since | \
		calls:--until | calls:--around | calls:--pid | calls:--tid | calls:--comm | calls:--cpu | \
		calls:-C | calls:--processor | waits:--limit | waits:-n | waits:--jobs | waits:-j | \
		waits:--filter | waits:--mtc-freq | waits:--nom-freq | waits:--cpuid-0x15 | waits:--since | \
		waits:--until | waits:--around | waits:--pid | waits:--tid | waits:--comm | waits:--cpu | \
		waits:-C | waits:--processor | script:--last | script:--jobs | script:-j | script:--filter | \
		script:--mtc-freq | script:--nom-freq | script:--cpuid-0x15 | script:--since | script:--until | \
		script:--around | script:--function | script:--pid | script:--tid | script:--comm | script:--cpu | \
		script:-C | script:--processor | stat:--jobs | stat:-j | stat:--filter | stat:--mtc-freq | \
		stat:--nom-freq | stat:--cpuid-0x15 | stat:--since | stat:--until | stat:--around | stat:--pid | \
		stat:--tid | stat:--comm | stat:--cpu | stat:-C | stat:--processor | verify:--jobs | verify:-j | \
		verify:--filter | verify:--mtc-freq | verify:--nom-freq | verify:--cpuid-0x15 | verify:--pid | \
		verify:--tid | verify:--comm | verify:--cpu | verify:-C | verify:--processor | dump:--range | \
		dump:--since | dump:--until | dump:--around | dump:--jobs | dump:-j | dump:--filter | \
		dump:--mtc-freq | dump:--nom-freq | dump:--cpuid-0x15 | dump:--pid | dump:--tid | dump:--comm | \
		dump:--cpu | dump:-C | dump:--processor | profile:--shard | profile:--limit | profile:-n | \
		profile:--jobs | profile:-j | profile:--filter | profile:--mtc-freq | profile:--nom-freq | \
		profile:--cpuid-0x15 | profile:--since | profile:--until | profile:--around | profile:--function | \
		profile:--pid | profile:--tid | profile:--comm | profile:--cpu | profile:-C | \
		profile:--processor | cover:--map-size | cover:--reached | cover:--jobs | cover:-j | \
		cover:--filter | cover:--mtc-freq | cover:--nom-freq | cover:--cpuid-0x15 | cover:--since | \
		cover:--until | cover:--around | cover:--function | cover:--pid | cover:--tid | cover:--comm | \
		cover:--cpu | cover:-C | cover:--processor | export:--max-stack | export:--include | \
		export:--exclude | export:--jobs | export:-j | export:--filter | export:--mtc-freq | \
		export:--nom-freq | export:--cpuid-0x15 | export:--since | export:--until | export:--around | \
		export:--function | export:--pid | export:--tid | export:--comm | export:--cpu | export:-C | \
		export:--processor | inject:--jobs | inject:-j | inject:--since | inject:--until | \
		inject:--around | inject:--pid | inject:--tid | inject:--comm | inject:--cpu | inject:-C | \
		inject:--processor | repack:--psb-period | repack:--pid | repack:--tid | repack:--comm | \
		repack:--cpu | repack:-C | repack:--processor | diff:--ignore | diff:--fail-over | \
		diff:--fail-over-each | diff:--least | diff:--limit | diff:-n | diff:--jobs | diff:-j | \
		diff:--pid | diff:--tid | diff:--comm | diff:--cpu | diff:-C | diff:--processor | \
		vm:--plugin-arguments) echo "nothing" ;;
	record:--recorder | live:--recorder) echo "words best hardware qemu ptrace vm module native" ;;
	record:--clock | live:--clock) echo "words default insn host" ;;
	live:--format | report:--format | annotate:--format | calls:--format | waits:--format | \
		script:--format | stat:--format | verify:--format | dump:--format | profile:--format | \
		diff:--format | caps:--format) echo "words text json tsv" ;;
	live:--sort) echo "words now total calls p99 max waits" ;;
	live:--cover-format) echo "words edges blocks drcov bitmap lcov cobertura gcov processes" ;;
	live:--symfs | live:--buildid-dir | report:--symfs | report:--buildid-dir | view:--source-path | \
		view:--prefix | view:--symfs | view:--buildid-dir | annotate:--source-path | annotate:--prefix | \
		annotate:--symfs | annotate:--buildid-dir | calls:--symfs | calls:--buildid-dir | waits:--symfs | \
		waits:--buildid-dir | script:--symfs | script:--buildid-dir | stat:--symfs | stat:--buildid-dir | \
		verify:--symfs | verify:--buildid-dir | dump:--symfs | dump:--buildid-dir | profile:--symfs | \
		profile:--buildid-dir | cover:--symfs | cover:--buildid-dir | export:--symfs | \
		export:--buildid-dir | inject:--symfs | inject:--buildid-dir | repack:--symfs | \
		repack:--buildid-dir | diff:--symfs | diff:--buildid-dir) echo "folder" ;;
	live:--color | report:--color | annotate:--color | calls:--color | waits:--color | script:--color | \
		stat:--color | verify:--color | dump:--color | profile:--color | cover:--color | export:--color | \
		diff:--color | caps:--color) echo "words auto always never" ;;
	report:--value | export:--value) echo "words instructions cycles time wall" ;;
	report:--by | export:--by) echo "words all process thread cpu" ;;
	report:--errata | view:--errata | annotate:--errata | calls:--errata | waits:--errata | \
		script:--errata | stat:--errata | verify:--errata | dump:--errata | profile:--errata | \
		cover:--errata | export:--errata | inject:--errata | repack:--errata | diff:--errata) echo "list all none BDM70 BDM64 SKD007 SKD022 SKD010 SKL014 APL12 APL11 SKL168 SKZ84" ;;
	calls:--value) echo "words instructions cycles time" ;;
	calls:--sort) echo "words total self calls min p50 p90 p99 max name" ;;
	waits:--sort) echo "words total waits p50 p90 p99 max name" ;;
	dump:--packets) echo "list tnt mode bad pad psb psbend tnt-8 tnt-64 tip tip.pge tip.pgd fup mode.exec mode.tsx pip vmcs cbr tsc tma mtc cyc ovf tracestop mnt ptw exstop mwait pwre pwrx cfe evd bbp bip bep trig" ;;
	profile:--by) echo "words branches blocks edges functions" ;;
	cover:--format) echo "words edges blocks drcov bitmap processes" ;;
	export:--to) echo "words help fxt perfetto chrome firefox folded svg speedscope pprof callgrind lcov cobertura gcov drcov bolt autofdo llvm-profgen sqlite" ;;
	export:--clock) echo "words default time instructions" ;;
	export:--branches) echo "words none calls all" ;;
	diff:--by) echo "words functions branches lines" ;;
	caps:--model | caps:-m | vm:--model) echo "words list broadwell skylake goldmont goldmont-plus ice-lake tiger-lake tremont alder-lake-p alder-lake-e arrow-lake-p arrow-lake-e sapphire-rapids minimal minimal-range maximal none" ;;
	esac
}

_ptah_commands='record live report view annotate calls waits script stat verify dump asm profile merge cover export inject repack diff caps vm'

# Offers words that begin with the third argument and the rest of it; the second
# stands before each.
_ptah_offer() {
	mapfile -t COMPREPLY < <(compgen -P "$2" -W "$1" -- "$3")
}

_ptah_complete_value() { # KIND-AND-WORDS CURRENT
	local kind=${1%% *} words=${1#* } before=
	case $kind in
	file) mapfile -t COMPREPLY < <(compgen -f -- "$2"); compopt -o filenames 2>/dev/null ;;
	folder) mapfile -t COMPREPLY < <(compgen -d -- "$2"); compopt -o filenames 2>/dev/null ;;
	words) _ptah_offer "$words" "" "$2" ;;
	list)
		[[ $2 == *,* ]] && before=${2%,*},
		_ptah_offer "$words" "$before" "${2##*,}"
		;;
	esac
}

# The place of the program that `ptah record` or `ptah live` runs, or of the word at hand.
_ptah_program_at() {
	local i
	for ((i = 2; i < COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--) echo $((i + 1)); return ;;
		-*) [[ ${COMP_WORDS[i + 1]} == = || $(_ptah_value "$command" "${COMP_WORDS[i]}") ]] && ((i++))
			[[ ${COMP_WORDS[i]} == = ]] && ((i++)) ;;
		*) echo "$i"; return ;;
		esac
	done
	echo "$COMP_CWORD"
}

_ptah() {
	local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}
	local command=${COMP_WORDS[1]} value program
	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		_ptah_offer "$_ptah_commands --help --version" "" "$current"
		return
	fi
	# bash takes --option=value apart at the sign.
	if [[ $current == = ]]; then
		current=
	elif [[ $previous == = ]]; then
		previous=${COMP_WORDS[COMP_CWORD - 2]}
	fi
	if [[ $command == record || $command == live ]]; then
		program=$(_ptah_program_at)
		if ((program < COMP_CWORD)) || [[ $program == "$COMP_CWORD" && $previous == -- ]]; then
			if declare -F _command_offset >/dev/null; then
				_command_offset "$program"
			elif ((program == COMP_CWORD)); then
				mapfile -t COMPREPLY < <(compgen -c -- "$current")
			else
				_ptah_complete_value file "$current"
			fi
			return
		fi
	fi
	value=$(_ptah_value "$command" "$previous")
	if [[ $value ]]; then
		_ptah_complete_value "$value" "$current"
	elif [[ $current == -* ]]; then
		_ptah_offer "$(_ptah_options "$command")" "" "$current"
		[[ ${COMPREPLY[0]-} == *= ]] && compopt -o nospace 2>/dev/null
	elif [[ $command == record || $command == live ]]; then
		mapfile -t COMPREPLY < <(compgen -c -- "$current")
	elif [[ $command != caps ]]; then
		_ptah_complete_value file "$current"
	fi
	return 0
}

complete -F _ptah ptah
