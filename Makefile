# A thin front for CMake and scripts/; everything is decided there.
.PHONY: all demo check bench fuzz install clean

all:
	cmake --preset release
	cmake --build --preset release

demo:
	./scripts/demo

check:
	./scripts/check

bench: all
	./bench/run build

fuzz:
	cmake --preset fuzz
	cmake --build --preset fuzz
	./fuzz/run build-fuzz

install: all
	cmake --install build $(if $(DESTDIR),--prefix $(DESTDIR)/usr/local)

clean:
	rm -rf build build-*
