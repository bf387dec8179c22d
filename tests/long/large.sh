#!/bin/sh
# SPDX-License-Identifier: MIT
# Servers that are recorded natively while others use them: they do what they are asked for, end as
# alone, and all of it is decoded as what ran. What is not installed is skipped, with a line.
. "$PTAH_SOURCE/tests/cli/common.sh"

"$PTAH" record --recorder=native --dry-run -- true >out 2>&1 || skip "$(cat out)"
tried=0

# begin COMMAND...: records it in the background
begin() {
	rm -f run.data
	"$PTAH" record -q --recorder=native --truth -o run.data -- "$@" >server 2>&1 &
	recorder=$!
}

# wait_for COMMAND...: until it succeeds, or the server has ended
wait_for() {
	until "$@" >/dev/null 2>&1; do
		kill -0 "$recorder" 2>/dev/null || fail "the server has ended: $(cat server)"
		sleep 0.1
	done
}

# ended NAME: the server ends with status 0 and was decoded as what ran
ended() {
	status=0
	wait "$recorder" || status=$?
	equal "status of $1" "$status" 0
	"$PTAH" verify --all -i run.data >verified 2>notes || fail "$1: $(tail -3 verified notes)"
	grep -q 'decoded exactly what ran' verified || fail "$1: $(tail -1 verified)"
	! grep untraced notes || fail "$1: it left"
	echo "$1: $(tail -1 verified)"
	tried=$((tried + 1))
}

# has NAME PROGRAM...
has() {
	name=$1
	shift
	for program; do
		command -v "$program" >/dev/null || { echo "$name: skipped, no $program"; return 1; }
	done
}

PATH=$PATH:/usr/sbin:$(echo /usr/lib/postgresql/*/bin | tr ' ' :)
here=$PWD

if has nginx nginx ab curl; then
	mkdir -p logs html
	seq 1 20000 >html/index.html
	cat >nginx.conf <<END
daemon off;
worker_processes 2;
error_log logs/error;
pid logs/pid;
events { worker_connections 256; }
http {
	access_log logs/access;
	server {
		listen unix:$here/web;
		listen 127.0.0.1:${PTAH_PORT:-18080};
		root $here/html;
		gzip on;
	}
}
END
	begin nginx -p "$here/" -c nginx.conf
	wait_for curl -sf --unix-socket web -o /dev/null http://localhost/
	for option in -k -q; do
		ab "$option" -n 300 -c 8 -H 'Accept-Encoding: gzip' \
			"http://127.0.0.1:${PTAH_PORT:-18080}/index.html" >load 2>&1 || fail "$(cat load)"
		grep -q '^Failed requests: *0$' load || fail "nginx: $(cat load)"
	done
	kill -HUP "$(cat logs/pid)"
	curl -sf --unix-socket web http://localhost/ >page || fail "no page after a new configuration"
	cmp page html/index.html || fail "nginx: another page"
	kill -QUIT "$(cat logs/pid)"
	ended nginx
fi

if [ "$(id -u)" = 0 ]; then
	echo "postgres: skipped, it refuses to be root"
elif has postgres initdb postgres pgbench psql pg_isready createdb; then
	export PGHOST="$here" PGPORT=15432 LC_ALL=C
	"$PTAH" record -q --recorder=native --truth -o run.data -- initdb -D data -N >server 2>&1 ||
		fail "initdb: $(cat server)"
	"$PTAH" verify --all -i run.data >verified 2>&1 || fail "initdb: $(tail -3 verified)"
	begin postgres -D data -k "$here" -p 15432 -c listen_addresses=
	wait_for pg_isready -q
	createdb bench
	pgbench -q -i -s 1 bench >load 2>&1 || fail "pgbench: $(cat load)"
	pgbench -c 4 -j 2 -t 50 bench >load 2>&1 || fail "pgbench: $(cat load)"
	equal "balance" "$(psql -Atc 'select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)' bench)" t
	kill -INT "$(head -1 data/postmaster.pid)"
	ended postgres
fi

if has redis redis-server redis-benchmark redis-cli; then
	begin redis-server --port 0 --unixsocket "$here/redis" --save ''
	wait_for redis-cli -s redis ping
	redis-benchmark -s redis -n 500 -q >load 2>&1 || fail "redis-benchmark: $(cat load)"
	redis-cli -s redis shutdown nosave >load 2>&1 || :
	ended redis
fi
[ $tried != 0 ] || skip "none of the servers is installed"
