# SPDX-License-Identifier: GPL-2.0
#
#   make              build the modules for the rig's kernels, xwayd and xway
#   make demo         boot a real Xen and compare the ways between two guests
#   make bench        everything that is measured, by both clocks, and which goals it reaches;
#                     bench-quick: less of it
#   make check        all tests; or a part: check-unit check-tools check-debug check-costs check-stress
#                     check-fuzz check-style check-plain check-behaviours check-xen
#   make check-deep   what takes longer: more kinds of guests, random calls for ten minutes, also between
#                     guests whose kernel checks memory and locks; builds that first
#   make fuzz         ten million inputs as of a hostile peer, and an hour of what xwayd reads: some four hours
#   make soak         an hour of lives and deaths at random, and an hour beside a guest that lies, between
#                     guests whose kernel checks memory and locks; XWAY_TEST_SOAK_SECONDS=N: less or more;
#                     and modules that go and come a thousand times, XWAY_TEST_SOAK_LOADS=N
#   make compat       programs as Debian ships them, between two guests, and other people's
#                     suites of tests; prints tables
#   make deb          Debian packages, in build/deb; make rpm: those for Fedora, EL and SUSE, in build/rpm
#   make xwayd-static one file for domain 0 of hosts that take no packages, in build/tools
#
# What a test needs and is not there is installed with apt-get if we are root.

PYTHON := /usr/bin/python3
PYTEST := $(PYTHON) -m pytest -q --durations=5
PACKAGES := gcc libc6-dev python3-pytest liburing-dev libxen-dev libmnl-dev libjansson-dev pkg-config spin
compat: PACKAGES += bzip2 cargo golang-go librust-tokio-dev libssl-dev xz-utils

all: packages
	rig/rig build

packages:
	@missing=$$(dpkg-query -W -f '$${db:Status-Abbrev}$${Package}\n' $(PACKAGES) 2>/dev/null | \
		sed -n 's/^ii //p' | sort | comm -13 - \
		$$(t=$$(mktemp); printf '%s\n' $(PACKAGES) | sort >$$t; echo $$t)); \
	[ -z "$$missing" ] && exit 0; \
	if [ "$$(id -u)" = 0 ]; then \
		echo "installing" $$missing; apt-get -o DPkg::Lock::Timeout=600 install -y -qq $$missing >/dev/null; \
	else \
		echo "packages are missing: apt-get install" $$missing >&2; exit 1; \
	fi

demo: packages
	bench/demo

# Notes how long a part takes. The notes are printed as a table at the end, whatever failed.
PART = $(PYTHON) tests/part $@

check:
	@rm -rf build/check
	@$(MAKE) --no-print-directory check-parts; status=$$?; $(PYTHON) tests/part; exit $$status

# Two parts at a time, begun in this order. One CPU is enough for each but check-xen, which takes longest and uses
# one and a third. So what begins beside it gives way to it: no result there depends on the time that passes. The
# style's check reads what check-kernel unpacks.
BESIDE = nice -n 5 $(PART)
check-parts:
	$(MAKE) -j1 check-packages
	$(MAKE) -j2 check-images check-kernel
	$(MAKE) -j2 check-xen check-costs check-style check-tools check-unit check-stress check-fuzz \
		check-behaviours check-plain check-debug

check-packages:
	$(PART) $(MAKE) packages

check-images: packages
	$(PART) rig/rig build

check-kernel: packages
	$(PART) tests/uml/run --build

check-unit: packages
	$(BESIDE) $(MAKE) unit

unit:
	$(MAKE) -C tests/unit check
	$(MAKE) -C doc/models check

check-tools: packages
	$(BESIDE) $(PYTEST) tests/tools

check-debug: packages
	$(PART) tests/uml/run

check-stress: packages
	$(BESIDE) tests/uml/run --stress 120

check-fuzz: packages
	$(BESIDE) tests/uml/run --fuzz 60

check-style:
	$(BESIDE) tests/style/run

check-plain: packages
	$(PART) $(PYTEST) -m "not deep" tests/plain --ignore=tests/plain/test_behaviours.py \
		"tests/suites/test_python.py::test_python[plain-6.12-debian12-socket]"

check-behaviours: packages
	$(PART) $(PYTEST) -m "not deep" tests/plain/test_behaviours.py

check-costs: packages
	$(BESIDE) $(PYTEST) tests/xen -m "instructions and not deep"

check-xen: packages
	$(PART) $(PYTEST) tests/xen -m "not instructions and not deep and not soak"

check-deep: export XWAY_TEST_STRESS_SECONDS ?= 600
check-deep: packages
	tests/uml/run --stress $$XWAY_TEST_STRESS_SECONDS
	tests/uml/run --fuzz 300 --faults --light
	tests/uml/run --faults
	XWAY_TEST_SOAK_SECONDS=60 $(PYTEST) -s tests/xen -m soak -k test_liar
	$(PYTEST) tests/plain tests/xen -m deep

soak: packages
	$(PYTEST) -s tests/xen -m soak

fuzz: packages
	tests/tools/fuzz --seconds 3600
	tests/uml/run --fuzz 1100 --light --inputs 10000000

bench: EXTENT := --full
bench: OUTSIDE := --guests 12
bench-quick: EXTENT := --quick
bench-quick: OUTSIDE := --guests 2 --rounds 1 --ms 40

bench bench-quick: packages
	mkdir -p build/bench
	$(CC) -std=gnu11 -O2 -g -Ikernel/core -o build/bench/native bench/native.c -pthread
	for size in 64 2048 65536; do build/bench/native $$size 200 || exit 1; done >build/bench/native.json
	cat build/bench/native.json
	bench/demo $(EXTENT) --no-apps --clock instructions --out build/bench/instructions
	bench/demo $(EXTENT) --out build/bench/wall
	bench/outside $(OUTSIDE) -j >build/bench/outside.json
	bench/delay -j --out build/bench/delay >build/bench/delay.json
	bench/goals build/bench/native.json build/bench/instructions/results.json build/bench/wall/results.json

compat: packages
	$(PYTEST) tests/programs tests/suites

deb:
	debian/build

rpm:
	rpm/build

xwayd-static:
	$(MAKE) -C tools $@

clean:
	rm -rf build

.PHONY: all packages demo check check-unit unit check-tools check-debug check-stress check-fuzz check-style check-costs
.PHONY: check-plain check-behaviours check-xen check-deep soak fuzz bench bench-quick compat deb rpm xwayd-static clean
