# SPDX-License-Identifier: MIT
# Installs the build into ./root and makes pkg-config and the loader look there.
rm -rf root
DESTDIR=$PWD/root cmake --install "$PTAH_BUILD" --prefix /usr >log 2>&1 || { cat log; exit 1; }
PKG_CONFIG_PATH=$(dirname "$(find root -name ptah.pc)")
libdir=$(dirname "$(find "$PWD/root" -name libptah.so)")
export PKG_CONFIG_PATH LD_LIBRARY_PATH="$libdir"
# The installed library of a sanitized build needs the sanitizer's runtime.
sanitize=${PTAH_SANITIZE:+-fsanitize=$PTAH_SANITIZE}
