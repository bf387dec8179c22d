#!/bin/sh
# SPDX-License-Identifier: MIT
# A program for libipt builds against the installed header and library, with
# pkg-config alone, as C and as C++; and no libipt of the system is replaced.
set -eu
. "$PTAH_SOURCE/tests/install/common.sh"

cat >packets.c <<'END'
#include <intel-pt.h>

#include <stdio.h>

int main(void)
{
	static uint8_t trace[] = {0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02,
				  0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x82, 0x02, 0x23};
	struct pt_packet_decoder *decoder;
	struct pt_packet packet;
	struct pt_config config;
	int status;

	pt_config_init(&config);
	config.begin = trace;
	config.end = trace + sizeof(trace);
	decoder = pt_pkt_alloc_decoder(&config);
	status = pt_pkt_sync_forward(decoder);
	while (status >= 0) {
		status = pt_pkt_next(decoder, &packet, sizeof(packet));
		if (status >= 0)
			printf("%d ", packet.type);
	}
	pt_pkt_free_decoder(decoder);
	printf("%s %s\n", pt_errstr(pt_errcode(status)), pt_library_version().ext);
	return 0;
}
END
cp packets.c packets.cc
libipt=$(dirname "$(find "$PWD/root" -name libipt.so.2)")
for source in packets.c packets.cc; do
	compiler=$PTAH_CC
	[ "$source" = packets.c ] || compiler=$(command -v c++) || continue
	standards="c++11 c++17"
	[ "$source" != packets.c ] || standards="c99 c11"
	for standard in $standards; do
		# shellcheck disable=SC2046,SC2086
		"$compiler" "-std=$standard" -Wall -Wextra -Wpedantic -Werror $sanitize -o packets \
			"$source" $(pkg-config --cflags --libs ptah-libipt)
		[ "$(LD_LIBRARY_PATH=$libipt ./packets)" = "3 4 reached end of trace stream ptah" ]
	done
done

case $libipt in
*/ptah/libipt) ;;
*) echo "libipt.so.2 is in $libipt"; exit 1 ;;
esac
[ "$(find root -name 'libipt.so*' | wc -l)" -eq 3 ]
[ "$(find root -name intel-pt.h)" = root/usr/include/ptah/libipt/intel-pt.h ]
