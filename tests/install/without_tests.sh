#!/bin/sh
# SPDX-License-Identifier: MIT
# A build with -DPTAH_TESTS=OFF, as `make install` makes one, needs no package
# that only tests need, compiles no source that is not installed, and installs
# the same files as other builds.
set -eu
# A machine without cmocka, for CMake.
cat >pkg-config-without <<'END'
#!/bin/sh
case " $* " in *cmocka*) exit 1 ;; esac
exec pkg-config "$@"
END
chmod +x pkg-config-without
PKG_CONFIG=$PWD/pkg-config-without
export PKG_CONFIG

# configure FOLDER OPTION...: with the settings of the build under test.
configure() {
	folder=$1
	shift
	cmake -S "$PTAH_SOURCE" -B "$folder" \
		"-DCMAKE_C_COMPILER=$CC" "-DPTAH_SANITIZE=$PTAH_SANITIZE" \
		"$(grep '^CMAKE_GENERATOR:' "$PTAH_BUILD/CMakeCache.txt" | sed 's/^[^=]*=/-G/')" \
		"$(grep '^CMAKE_BUILD_TYPE:' "$PTAH_BUILD/CMakeCache.txt" | sed 's/^/-D/')" \
		"$(grep '^CMAKE_INSTALL_PREFIX:' "$PTAH_BUILD/CMakeCache.txt" | sed 's/^/-D/')" \
		"$@" >log 2>&1
}
configure off -DPTAH_TESTS=OFF || { cat log; exit 1; }
if grep -i -e cmocka -e libipt_ off/CMakeCache.txt; then
	echo "looked for, and not needed"
	exit 1
fi
# The sources that are compiled.
sed -n "s|^ *\"file\": \"$PTAH_SOURCE/\(.*\)\".*|\\1|p" off/compile_commands.json | sort -u >sources
echo "$(wc -l <sources) sources, $(wc -l <off/compile_commands.json) lines of commands"
grep -q '^cli/main.c$' sources
# Those that the build makes are in its own folder.
if grep -v -e '^src/' -e '^cli/' -e '^compat/' -e '/off/[a-z_]*\.c$' \
	-e '/off/runtime/[a-z-]*\.S$' sources; then
	echo "built, and not installed"
	exit 1
fi

# What is installed and from where: only the name of the build folder may differ.
installed() { # FOLDER
	find "$1" -path "$PWD" -prune -o -name cmake_install.cmake -exec awk '
		/file\(INSTALL/ { on = 1 }
		on { printf "%s", $0 }
		on && /\)/ { print ""; on = 0 }' {} + |
		sed "s|$1|BUILD|g" | sort
}
installed "$PWD/off" >off.txt
installed "$PTAH_BUILD" >on.txt
[ "$(wc -l <on.txt)" -gt 10 ]
diff off.txt on.txt

# The test can fail: a build with tests does look for cmocka.
if configure on; then
	echo "nobody looks for cmocka"
	exit 1
fi
