# Two commands matter: `make demo` and `make test`. Both install what is missing (`.ci/setup`, Debian, as root).
CARGO ?= cargo
LOOM_TARGET = target/loom

MINUTES ?= 1
PUBLISHED = ringway-shm ringway-channel ringway-wire ringway-probes ringway-stack ringway-device ringway-engine ringway
# Libraries for C programs: our own interface, and those of other stacks.
LIBRARIES = ringway mtcp fstack
PREFIX ?= /usr/local
# The preload library is looked for in ../lib/ringway, seen from the command.
LIBDIR ?= $(PREFIX)/lib
ROOT = $(DESTDIR)$(PREFIX)
RELEASE ?= target/release
VERSION = $(shell sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
# As capi/build.rs: while the major number is 0, each minor number is an interface of its own.
SONAME_VERSION = $(shell echo $(VERSION) | sed -e 's/^0\.\([0-9]*\)\..*/0.\1/' -e 's/^\([1-9][0-9]*\)\..*/\1/')
FUZZ_TARGETS = frames tcp_options segments reassembly fragments script channel groups control netlink firewall config capture

.PHONY: demo test test-all report build setup setup-demo lint unit conformance loom miri fuzz soak system vm-lab bench-instructions check-instructions tidy arrows rfc-coverage install install-files install-programs install-c uninstall tarball deb rpm msrv package clean

demo: setup-demo
	$(CARGO) build --release -p ringway-cli -p ringway-preload
	target/release/ringway demo

# Everything that is checked. The system tests come last, so that cargo's own summary closes the output.
test: setup lint package unit conformance loom miri check-instructions system

# And what takes longer than a submission may: thousands of hostile processes and of kills. Under an hour.
test-all: test msrv
	.ci/setup programs
	$(CARGO) test --release -p ringway-cli --test system -- --ignored --skip isolation::attack --test-threads=1 --nocapture

build:
	$(CARGO) build --release --workspace

# Installs programs, libraries, units, the C header, manual pages and completions below DESTDIR/PREFIX. `install-files` builds nothing.
install: build install-files

install-files: install-programs install-c

# What runs programs on Ringway.
install-programs:
	install -d $(addprefix $(ROOT)/,bin share/man/man1 share/man/man5 share/man/man7 share/man/man8 lib/systemd/system lib/sysusers.d \
		share/bash-completion/completions share/zsh/site-functions share/fish/vendor_completions.d) $(DESTDIR)$(LIBDIR)/ringway
	install -m 755 $(RELEASE)/ringway $(ROOT)/bin/ringway
	install -m 755 $(RELEASE)/libringway_preload.so $(DESTDIR)$(LIBDIR)/ringway/libringway_preload.so
	for name in $(LIBRARIES); do \
		install -m 755 $(RELEASE)/lib$$name.so $(DESTDIR)$(LIBDIR)/lib$$name.so.$(VERSION) && \
		ln -sf lib$$name.so.$(VERSION) $(DESTDIR)$(LIBDIR)/lib$$name.so.$(SONAME_VERSION) || exit 1; done
	$(RELEASE)/ringway manual $(ROOT)/share/man/man1
	mv $(ROOT)/share/man/man1/ringway.toml.5 $(ROOT)/share/man/man5/
	install -m 644 packaging/ringway.7 $(ROOT)/share/man/man7/
	install -m 644 packaging/ringway-preload.8 $(ROOT)/share/man/man8/
	$(RELEASE)/ringway completions bash > $(ROOT)/share/bash-completion/completions/ringway
	$(RELEASE)/ringway completions zsh > $(ROOT)/share/zsh/site-functions/_ringway
	$(RELEASE)/ringway completions fish > $(ROOT)/share/fish/vendor_completions.d/ringway.fish
	for unit in ringway.service ringway@.service; do \
		sed -e 's,/usr/bin/,$(PREFIX)/bin/,' packaging/$$unit > $(ROOT)/lib/systemd/system/$$unit || exit 1; done
	install -m 644 packaging/ringway.sysusers $(ROOT)/lib/sysusers.d/ringway.conf

# What compiles C programs with the library.
install-c:
	install -d $(addprefix $(ROOT)/,include/ringway/mtcp include/ringway/fstack share/man/man3) $(DESTDIR)$(LIBDIR)/pkgconfig
	for name in $(LIBRARIES); do ln -sf lib$$name.so.$(SONAME_VERSION) $(DESTDIR)$(LIBDIR)/lib$$name.so || exit 1; done
	install -m 644 capi/include/ringway.h $(ROOT)/include/ringway.h
	install -m 644 mtcp/include/*.h $(ROOT)/include/ringway/mtcp/
	install -m 644 fstack/include/*.h $(ROOT)/include/ringway/fstack/
	install -m 644 packaging/ringway.3 $(ROOT)/share/man/man3/ringway.3
	for name in ringway libmtcp libfstack; do \
		sed -e 's,@PREFIX@,$(PREFIX),' -e 's,@LIBDIR@,$(LIBDIR),' -e 's,@VERSION@,$(VERSION),' packaging/$$name.pc.in \
			> $(DESTDIR)$(LIBDIR)/pkgconfig/$$name.pc || exit 1; done

# Removes what `install` with the same PREFIX and DESTDIR has put there, and no folder that has anything else in it.
uninstall:
	@! grep -qs '^$(LIBDIR)/ringway/libringway_preload.so$$' $(DESTDIR)/etc/ld.so.preload || \
		{ echo "the loader puts the library into all programs: ringway disable --program PATH of each line of /etc/ringway/programs"; exit 1; }
	@stage=$$(mktemp -d) && $(MAKE) -s install-files DESTDIR=$$stage && \
		(cd $$stage && find . ! -type d | while read -r file; do rm -fv "$(DESTDIR)/$$file"; done); \
		rm -r $$stage; rmdir --ignore-fail-on-non-empty $(DESTDIR)$(LIBDIR)/ringway

# The installation below / as an archive, and as Debian packages: `ringway`, and `ringway-dev` for C programs.
tarball: build
	packaging/archive.sh target/packages

deb: build
	packaging/deb.sh target/packages

rpm: build
	packaging/rpm.sh target/packages

setup:
	.ci/setup test

setup-demo:
	.ci/setup demo

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --all-features -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --all-features
	$(CARGO) check -p ringway-stack --target x86_64-unknown-none

# That the oldest compiler which Cargo.toml names builds everything; `rustup` brings it.
msrv:
	version=$$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml) && rustup toolchain install "$$version" --profile minimal && \
		$(CARGO) "+$$version" check --workspace --all-targets --target-dir target/msrv

# That the crates which programs may use can be published: descriptions, versions of dependencies, files. No registry is asked.
package:
	$(CARGO) package $(addprefix -p ,$(PUBLISHED)) --no-verify --offline --allow-dirty

# House rules (cli/tests/tidy.rs), every crate's own tests, the simulator.
unit:
	$(CARGO) test --workspace --exclude ringway-cli --all-features
	$(CARGO) test -p ringway-cli --bins --test tidy

# Our own .pkt scripts, in virtual time: a table by mechanism, then `N passed, N failed`.
conformance:
	$(CARGO) run -q -p ringway-sim --bin conformance

tidy:
	$(CARGO) test -p ringway-cli --test tidy

# Writes the arrows between crates into ARCHITECTURE.md, from the manifests.
arrows:
	UPDATE_ARROWS=1 $(CARGO) test -q -p ringway-cli --test tidy the_arrows_of_the_architecture_are_true

# Writes docs/rfc-coverage.md from the tags in code, tests and scripts.
rfc-coverage:
	UPDATE_RFC_COVERAGE=1 $(CARGO) test -q -p ringway-cli --test tidy the_coverage_document_is_true

# Every interleaving of the shared rings and the doorbell.
loom:
	RUSTFLAGS="--cfg loom" $(CARGO) test -p ringway-shm --release --target-dir $(LOOM_TARGET) loom

# The arena, queues, lists and rings under an interpreter that sees undefined behaviour; where a nightly toolchain has it.
miri:
	@if $(CARGO) +nightly miri --version >/dev/null 2>&1; then \
		$(CARGO) +nightly miri test -p ringway-shm --lib --target-dir target/miri -- arena:: queue:: fifo:: list:: ring:: doorbell:: \
			payload:: extent:: sum::; \
	else echo "miri: not on this machine (rustup component add miri rust-src --toolchain nightly)"; fi

# Every fuzz target for MINUTES in turn; what is new is kept in target/fuzz-corpus. `make unit` runs the same bodies over
# the seeds and a few thousand mutations without any of this. libFuzzer would start a symbolizer for each function that it
# sees for the first time, and weigh all features of each input: both take longer than the inputs.
fuzz:
	@$(CARGO) +nightly fuzz --version >/dev/null 2>&1 || { \
		echo "make fuzz needs: rustup toolchain install nightly; cargo install cargo-fuzz"; exit 1; }
	cd fuzz && $(CARGO) +nightly fuzz build --target-dir ../target/fuzz
	@for target in $(FUZZ_TARGETS); do \
		mkdir -p target/fuzz-corpus/$$target target/fuzz-artifacts/$$target; \
		echo "== $$target, $(MINUTES) minutes"; \
		(cd fuzz && $(CARGO) +nightly fuzz run --target-dir ../target/fuzz $$target ../target/fuzz-corpus/$$target seeds/$$target \
			-- -max_total_time=$$(($(MINUTES) * 60)) -timeout=20 -max_len=8192 -print_final_stats=1 -print_funcs=0 -entropic=0 \
			-artifact_prefix=../target/fuzz-artifacts/$$target/) || exit 1; \
	done

# Random scenarios of the simulator for MINUTES, from seeds nobody has run before.
soak:
	$(CARGO) build --release -p ringway-sim
	target/release/ringway-sim --soak $(MINUTES)m --threads $$(nproc)

# Real programs in network namespaces of their own: needs root.
system: build
	$(CARGO) test --release -p ringway-cli --test system -- --test-threads=1

# The same in guests of other kernels, over cards that QEMU emulates: each kernel with each card. Minutes.
vm-lab: build
	$(CARGO) test --release -p ringway-cli --test system -- vm:: --include-ignored --test-threads=1 --nocapture

# Instructions per message, counted by callgrind at N and 2N; docs/performance.md records them.
bench-instructions:
	$(CARGO) build --release -p ringway-bench
	target/release/instructions 2000

# Fails when a figure of bench/instructions.toml has grown by more than 2 %.
check-instructions:
	$(CARGO) build --release -p ringway-bench
	target/release/instructions --check

# Everything that is measured, in a short form (under half an hour, on a machine that does nothing else), and the report of it:
# target/report for browsers, docs/report/report.md with its figures beside it.
report: build
	target/release/ringway bench all -o target/report
	target/release/ringway report target/report/rows.jsonl --markdown -o docs/report

clean:
	$(CARGO) clean
