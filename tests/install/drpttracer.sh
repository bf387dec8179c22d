#!/bin/sh
# SPDX-License-Identifier: MIT
# A program for drpttracer builds against the installed header and library, with
# pkg-config alone, as C and as C++; the library exports drpttracer's functions and
# nothing else; and where there is no Intel PT the status codes say so.
set -eu
. "$PTAH_SOURCE/tests/install/common.sh"

cat >client.c <<'END'
#include <drpttracer.h>

#include <stdio.h>

int main(void)
{
	drpttracer_output_t *output = NULL;
	void *context = NULL, *handle = NULL;
	bool available = drpttracer_init();
	pt_metadata_t metadata;

	if (drpttracer_create_output(context, 8, 8, &output) != DRPTTRACER_SUCCESS)
		return 1;
	switch (drpttracer_create_handle(context, DRPTTRACER_TRACING_ONLY_USER, 8, 8, &handle)) {
	case DRPTTRACER_SUCCESS:
		if (!available || drpttracer_get_pt_metadata(handle, &metadata) != DRPTTRACER_SUCCESS ||
		    drpttracer_start_tracing(context, handle) != DRPTTRACER_SUCCESS)
			return 1;
		printf("tracing\n");
		if (drpttracer_stop_tracing(context, handle, output) != DRPTTRACER_SUCCESS ||
		    !output->pt_size || !output->sideband_size ||
		    drpttracer_destroy_handle(context, handle) != DRPTTRACER_SUCCESS)
			return 1;
		break;
	case DRPTTRACER_ERROR_FAILED_TO_OPEN_PERF_EVENT:
		printf("no Intel PT\n");
		break;
	case DRPTTRACER_ERROR_FAILED_TO_MMAP_PT_DATA:
		printf("not enough locked memory\n");
		break;
	default:
		return 1;
	}
	if (available)
		drpttracer_exit();
	return drpttracer_destroy_output(context, output) != DRPTTRACER_SUCCESS;
}
END
cp client.c client.cc
folder=$(dirname "$(find "$PWD/root" -name libdrpttracer.so)")
case $folder in
*/ptah/drpttracer) ;;
*) echo "libdrpttracer.so is in $folder"; exit 1 ;;
esac
for source in client.c client.cc; do
	compiler=$PTAH_CC
	[ "$source" = client.c ] || compiler=$(command -v c++) || continue
	standards="c++11 c++17"
	[ "$source" != client.c ] || standards="c99 c11"
	for standard in $standards; do
		# shellcheck disable=SC2046,SC2086
		"$compiler" "-std=$standard" -Wall -Wextra -Wpedantic -Werror $sanitize -o client \
			"$source" $(pkg-config --cflags --libs ptah-drpttracer)
		LD_LIBRARY_PATH=$folder ./client
	done
done

# As in DynamoRIO's ext/drpttracer/drpttracer.h.
cat >expected <<'END'
drpttracer_create_handle
drpttracer_create_output
drpttracer_destroy_handle
drpttracer_destroy_output
drpttracer_exit
drpttracer_get_pt_metadata
drpttracer_init
drpttracer_start_tracing
drpttracer_stop_tracing
END
nm -D --defined-only "$folder/libdrpttracer.so" | awk '$2 == "T" { print $3 }' | LC_ALL=C sort >exported
diff expected exported
[ "$(nm -D --defined-only "$folder/libdrpttracer.so" | wc -l)" -eq 9 ]
readelf -d "$folder/libdrpttracer.so" | grep -F 'soname: [libdrpttracer.so]'

# A dr_api.h that was included before has a type bool of its own.
cat >after.c <<'END'
#define _DR_API_H_
typedef char bool;
typedef unsigned int uint;
#define true 1
#include <drpttracer.h>
bool after(void);
bool after(void) { return drpttracer_init(); }
END
# shellcheck disable=SC2046
"$CC" -Wall -Werror -c -o after.o after.c $(pkg-config --cflags ptah-drpttracer)
