# SPDX-License-Identifier: GPL-2.0
#
#   make              build the module for the rig's kernels, xwayd and xway
#   make demo         boot a real Xen and compare the ways between two guests
#   make bench        everything that is measured, by both clocks, and which goals it reaches;
#                     bench-quick: less of it
#   make check        all tests; or a part: check-unit check-tools check-debug check-stress
#                     check-style check-plain check-xen
#   make check-deep   random calls between guests whose kernel checks memory and locks; builds that first
#   make compat       programs as Debian ships them, between two guests, and other people's
#                     suites of tests; prints tables
#   make deb          Debian packages, in build/deb
#
# What a test needs and is not there is installed with apt-get if we are root.

PYTHON := /usr/bin/python3
PYTEST := $(PYTHON) -m pytest -q --durations=5
PACKAGES := gcc libc6-dev python3-pytest liburing-dev libxen-dev libmnl-dev libjansson-dev pkg-config
compat: PACKAGES += bzip2 cargo golang-go librust-tokio-dev libssl-dev xz-utils

all: packages
	rig/rig build

packages:
	@missing=$$(dpkg-query -W -f '$${db:Status-Abbrev}$${Package}\n' $(PACKAGES) 2>/dev/null | \
		sed -n 's/^ii //p' | sort | comm -13 - \
		$$(t=$$(mktemp); printf '%s\n' $(PACKAGES) | sort >$$t; echo $$t)); \
	[ -z "$$missing" ] && exit 0; \
	if [ "$$(id -u)" = 0 ]; then \
		echo "installing" $$missing; apt-get install -y -qq $$missing >/dev/null; \
	else \
		echo "packages are missing: apt-get install" $$missing >&2; exit 1; \
	fi

demo: packages
	bench/demo

# One CPU is enough for each of the two in the middle. The style's check reads what they unpack.
check:
	$(MAKE) -j1 check-unit check-tools
	$(MAKE) -j2 check-debug check-stress
	$(MAKE) -j1 check-style check-plain check-xen

check-unit: packages
	$(MAKE) -C tests/unit check

check-tools: packages
	$(PYTEST) tests/tools

check-debug: packages
	tests/uml/run

check-stress: packages
	tests/uml/run --stress 600

check-style:
	tests/style/run

check-plain: packages
	$(PYTEST) tests/plain
	$(PYTEST) tests/suites -k "python and socket and 6.12"

check-xen: packages
	$(PYTEST) tests/xen -m "not deep"

check-deep: packages
	XWAY_TEST_STRESS_SECONDS=$${XWAY_TEST_STRESS_SECONDS:-600} $(PYTEST) tests/xen -m deep

bench: EXTENT := --full
bench-quick: EXTENT := --quick

bench bench-quick: packages
	mkdir -p build/bench
	$(CC) -std=gnu11 -O2 -g -Ikernel/core -o build/bench/native bench/native.c -pthread
	for size in 64 2048 65536; do build/bench/native $$size 200 || exit 1; done >build/bench/native.json
	cat build/bench/native.json
	bench/demo $(EXTENT) --no-apps --clock instructions --out build/bench/instructions
	bench/demo $(EXTENT) --out build/bench/wall
	bench/goals build/bench/native.json build/bench/instructions/results.json build/bench/wall/results.json

compat: packages
	$(PYTEST) tests/programs tests/suites

deb:
	debian/build

clean:
	rm -rf build

.PHONY: all packages demo check check-unit check-tools check-debug check-stress check-style
.PHONY: check-plain check-xen check-deep bench bench-quick compat deb clean
