# A thin front for CMake and scripts/; everything is decided there.
.PHONY: all demo check bench bench-memory fuzz mutants install dist deb clean

# A fresh build folder gets Ninja where there is one.
ifeq ($(wildcard build/CMakeCache.txt),)
ifneq ($(shell command -v ninja),)
export CMAKE_GENERATOR ?= Ninja
endif
endif

all:
	cmake --preset release
	cmake --build --preset release

demo:
	./scripts/demo

check:
	./scripts/check

bench: all
	./bench/run build

bench-memory: all
	./bench/memory build

fuzz:
	cmake --preset fuzz
	cmake --build --preset fuzz
	./fuzz/run build-fuzz

mutants:
	./tools/mutate-engine

install: all
	DESTDIR=$(DESTDIR) cmake --install build $(if $(PREFIX),--prefix $(PREFIX))

# The last commit as a tarball, the same bytes each time; and as Debian packages.
dist:
	./packaging/make-dist

deb:
	./packaging/make-deb

clean:
	rm -rf build build-*
