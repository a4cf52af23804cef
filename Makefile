# make test    everything that needs no servers
# make lint    rustfmt, and clippy for the combinations of features that users pick
# make doc     rustdoc, warnings denied
# make pure    checks that carom-core is free of I/O
# make live    third-party servers and clients; installs them if they are missing
# make bench   carom beside its peers; writes target/bench; installs protoc if it is missing. PART=window for one part; PART=faults,
#              which is not run otherwise, for real servers that fail, a quarter of an hour; ARGS for more, as ARGS="--quick", or
#              ARGS="--rounds 1 --fault 503" for one row of the faults

CARGO ?= cargo

# Tests wait for sockets and processes most of the time, so more of them than cores run at once.
export RUST_TEST_THREADS ?= 8

# Features of the library, in the combinations that users pick. The tests have all of them.
FEATURES = dns tls feed window serde metrics bb8 deadpool kang http dns,bb8 dns,deadpool http,metrics http,kang,metrics

.PHONY: test bench bench-lint lint doc pure live

# All of them select the whole workspace, so that features are the same and everything is compiled once.
test:
	$(CARGO) test --locked --no-fail-fast --workspace --lib --bins --examples --test it --test process
	$(CARGO) test --locked --workspace --doc
	$(CARGO) test --locked -p carom --lib --features __shuttle interleavings

bench: $(if $(filter faults,$(PART)),bench-lint)
	bench/install.sh $(PART)
	$(CARGO) build --locked --profile dist -p carom-cli
	$(CARGO) run --locked --profile dist -p carom-bench --features $(if $(filter faults,$(PART)),faults,pulsar) -- $(if $(PART),--part $(PART)) $(ARGS)

# What the feature `faults` brings is heavy, so `make lint` and `make test` leave it out.
bench-lint:
	$(CARGO) clippy --locked -p carom-bench --all-targets --features faults -- -D warnings
	$(CARGO) test --locked -p carom-bench --features faults faults

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked -p carom --no-default-features -- -D warnings
	for features in $(FEATURES); do \
		$(CARGO) clippy --locked -p carom --no-default-features --features $$features -- -D warnings || exit 1; \
	done
	$(CARGO) clippy --locked -p carom-gateway -p carom-cli --no-default-features -- -D warnings
	if command -v protoc >/dev/null; then $(CARGO) clippy --locked -p carom-bench --all-targets --features pulsar -- -D warnings; \
	else echo "SKIPPED: clippy of the pulsar benchmark: protoc is not installed"; fi

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --features carom/bb8,carom/deadpool,carom/feed,carom/http,carom/kang,carom/metrics,carom/window,carom-gateway/nats

# The dependency tree may hold nothing but the crate itself; its clippy.toml forbids clocks, locks and threads.
pure:
	@tree=$$($(CARGO) tree --locked -p carom-core -e normal,build --prefix none | grep -v '^carom-core ' || true); \
	if [ -n "$$tree" ]; then echo "carom-core has dependencies:"; echo "$$tree"; exit 1; fi
	$(CARGO) clippy --locked -p carom-core --lib -- -D warnings -D clippy::disallowed_methods -D clippy::disallowed_types
	@echo "carom-core is pure"

live:
	live/install.sh
	$(CARGO) build --locked --workspace --bin carom --test live
	$(CARGO) test --locked --no-fail-fast --workspace --test live -- --test-threads=4 --show-output
