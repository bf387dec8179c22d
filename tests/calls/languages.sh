#!/bin/sh
# SPDX-License-Identifier: MIT
# Languages that leave functions, and change stacks, in ways of their own: Rust, OCaml and Go, as far
# as their compilers are installed.
. "$PTAH_SOURCE/tests/calls/common.sh"

build_log
none=
if command -v rustc >/dev/null; then
	rustc --edition 2021 -O -g -C link-arg=call_log.o -o panics "$programs/panics.rs"
	record_log -- ./panics
	same_calls ./panics
else
	none="$none rustc"
fi
if command -v ocamlopt >/dev/null; then
	cp "$programs/exceptions.ml" .
	ocamlopt -g -ccopt "call_log.o -no-pie" -o exceptions exceptions.ml
	record_log -- ./exceptions
	same_calls ./exceptions
else
	none="$none ocamlopt"
fi
if command -v go >/dev/null; then
	GOCACHE=$PWD/cache GOFLAGS=-mod=mod go build -o stacks "$programs/stacks.go"
	record_log -- ./stacks
	same_calls ./stacks
else
	none="$none go"
fi
[ -z "$none" ] || echo "not tested, because not installed:$none"
[ "$none" != " rustc ocamlopt go" ] || skip "none of the compilers is installed"
