# make test    everything that can be shown without servers
# make bench   carom beside its peers, one run; writes target/bench; installs protoc if it is missing
# make lint    formatting, clippy
# make doc     rustdoc, warnings denied
# make pure    that the machines are free of I/O
# make live    third-party servers, killed and restarted under load; installs them if they are missing

CARGO ?= cargo
FEATURES = carom/bb8,carom/deadpool,carom/http,carom/kang,carom/metrics

.PHONY: test bench lint doc pure live

test:
	$(CARGO) test --locked --no-fail-fast --all-targets --features $(FEATURES)
	$(CARGO) test --locked --doc --features $(FEATURES)
	$(CARGO) test --locked -p carom-bench
	RUSTFLAGS="--cfg carom_shuttle" $(CARGO) test --locked -p carom --lib --target-dir target/shuttle interleavings

bench:
	bench/install.sh
	$(CARGO) build --locked --release -p carom-cli
	$(CARGO) run --locked --release -p carom-bench --features pulsar

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --workspace --all-targets -- -D warnings
	$(CARGO) clippy --locked -p carom --all-targets -- -D warnings
	$(CARGO) clippy --locked --all-targets --features $(FEATURES) -- -D warnings
	if command -v protoc >/dev/null; then $(CARGO) clippy --locked -p carom-bench --all-targets --features pulsar -- -D warnings; fi

doc:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --features $(FEATURES)

# The dependency tree may hold nothing but the crate itself; its clippy.toml forbids clocks, locks and threads.
pure:
	@tree=$$($(CARGO) tree --locked -p carom-core -e normal,build --prefix none | grep -v '^carom-core ' || true); \
	if [ -n "$$tree" ]; then echo "carom-core has dependencies:"; echo "$$tree"; exit 1; fi
	$(CARGO) clippy --locked -p carom-core --lib -- -D warnings -D clippy::disallowed_methods -D clippy::disallowed_types
	@echo "carom-core is pure"

live:
	live/install.sh
	$(CARGO) build --locked -p carom-cli
	$(CARGO) test --locked --no-fail-fast -p carom-live -- --test-threads=1 --nocapture
