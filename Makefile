# Short names for calls of CMake and of scripts; nothing is decided here.
.PHONY: all demo check check-long check-nightly bench bench-memory fuzz mutants install dist deb clean

# $(call configure,PRESET,FOLDER): a new build folder uses Ninja where it is installed.
ninja := $(if $(shell command -v ninja),CMAKE_GENERATOR=$(or $(CMAKE_GENERATOR),Ninja))
configure = $(if $(wildcard $(2)/CMakeCache.txt),,$(ninja)) cmake --preset $(1)

all:
	$(call configure,release,build)
	cmake --build --preset release

demo:
	./scripts/demo

check:
	./scripts/check

check-long:
	./scripts/check --long

check-nightly:
	./scripts/check --nightly

bench: all
	./bench/run build

bench-memory: all
	./bench/memory build

fuzz:
	$(call configure,fuzz,build-fuzz)
	cmake --build --preset fuzz
	./fuzz/run build-fuzz

mutants:
	./tools/mutate-engine

# Builds what is installed and nothing else, in a build folder of its own.
install:
	$(call configure,install,build-install) $(if $(PREFIX),-DCMAKE_INSTALL_PREFIX=$(PREFIX))
	cmake --build --preset install
	DESTDIR=$(DESTDIR) cmake --install build-install

# The last commit as a tarball, the same bytes each time; and as Debian packages.
dist:
	./packaging/make-dist

deb:
	./packaging/make-deb

clean:
	rm -rf build build-*
