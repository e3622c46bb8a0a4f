# SPDX-License-Identifier: Apache-2.0
# The face of the build. Meson and ninja do the work; each target is one line of what to call.

BUILD        ?= build
SEED         ?= 1
FUZZ_SECONDS ?= 60
CHAOS_SECONDS ?= 180
PREFIX       ?= /usr/local
# make test ARGS='--suite unit' hands arguments to meson test
ARGS         ?=

.DEFAULT_GOAL := build
.PHONY: help clients deps deps-tests with-tests build-tests deps-clang deps-lint deps-servers deps-peers build test asan tsan fuzz soak sim bench bench-clients bench-cluster bench-events bench-node bench-peers bench-redis bench-signals bench-workers chaos chaos-bucket chaos-cluster chaos-events chaos-import chaos-node chaos-redis chaos-remount chaos-signals chaos-stop chaos-workers crossings load run demo cluster install deb bundle image dist package-test manifests chart hooks format settings lint clean

help: ## this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-13s %s\n", $$1, $$2}' Makefile

deps: ## install the Debian packages that are missing (silent when none is)
	@tools/deps.sh build

deps-tests:
	@tools/deps.sh build tests

deps-clang:
	@tools/deps.sh build tests clang

deps-lint:
	@tools/deps.sh build tests clang lint

# What needs a server that cannot be had here is a counted skip, or a failure where CI=true.
deps-servers:
	@tools/deps.sh servers || test "$$CI" != true
	@tools/get-consul || test "$$CI" != true
	@tools/deps.sh browser || test "$$CI" != true
	@tools/deps.sh clients || test "$$CI" != true
	@tools/deps.sh deb || test "$$CI" != true

deps-peers:
	@tools/deps.sh peers

build: deps $(BUILD)/build.ninja ## compile into build/ (the default); tests too, if their library is installed
	@ninja -C $(BUILD)

# A build directory that make run set up without the test library gets the tests now.
with-tests: deps-tests $(BUILD)/build.ninja
	@test -d $(BUILD)/tests || meson configure $(BUILD) -Dtests=enabled

build-tests: with-tests
	@ninja -C $(BUILD)

test: deps-servers with-tests ## run every suite; the last line counts the results
	@tools/test $(BUILD) $(ARGS)

asan: deps-clang deps-servers build-asan/build.ninja ## the same suites under address and undefined-behaviour checks (clang)
	@TEST_JOBS=4 TEST_PATIENCE=6 tools/test build-asan $(ARGS)

tsan: deps-tests deps-servers build-tsan/build.ninja ## the same suites under the data race detector
	@TEST_JOBS=4 TEST_PATIENCE=10 tools/test build-tsan $(ARGS)

fuzz: deps-clang build-fuzz/build.ninja ## libFuzzer on every decoder, FUZZ_SECONDS=60 each
	@ninja -C build-fuzz fuzzers
	@tools/fuzz build-fuzz $(FUZZ_SECONDS)

sim: build-tests ## one simulated world: make sim SEED=7
	@$(BUILD)/tests/sim/sim --seed $(SEED)

soak: build-tests ## simulated worlds, one seed after another, until stopped
	@tools/soak $(BUILD)/tests/sim/sim

bench: deps-tests build-release/build.ninja ## measure the release build
	@ninja -C build-release
	@meson test -C build-release --benchmark --no-rebuild --num-processes 1 --verbose $(ARGS)

bench-peers: deps-tests deps-peers build-release/build.ninja ## the same workloads beside beanstalkd and RabbitMQ, with the ratios
	@meson setup --reconfigure build-release >/dev/null
	@ninja -C build-release src/cli/peers src/cli/sluice
	@build-release/src/cli/peers $(ARGS)

bench-redis: deps-tests deps-servers build-release/build.ninja ## a Redis server as the store, beside BullMQ on the same server
	@ninja -C build-release src/cli/sluice tests/redis/redis_preload.so
	@test -d build-release/bullmq || npm install --silent --prefix build-release/bullmq bullmq ioredis || true
	@NODE_PATH=$(CURDIR)/build-release/bullmq/node_modules tools/bench-redis build-release/src/cli/sluice \
		build-release/tests/redis/redis_preload.so $(ARGS)

bench-node: deps-tests deps-servers build-release/build.ninja ## sluice bench over HTTP: a node on a directory, then one on a bucket
	@ninja -C build-release src/cli/sluice
	@tools/bench-node build-release/src/cli/sluice $(ARGS)
	@tests/servers/with-radosgw tools/bench-node build-release/src/cli/sluice $(ARGS)

bench-workers: deps-tests deps-servers build-release/build.ninja ## 200 workers on a bucket: with mailboxes, through a node, directly
	@ninja -C build-release src/cli/sluice bench/bench-workers
	@tests/servers/with-radosgw tools/bench-workers build-release $(ARGS)

bench-signals: deps-tests deps-servers build-release/build.ninja ## signals: latency, rate, waiting jobs, collect; BEFORE=build beside whose idle workers
	@ninja -C build-release src/cli/sluice bench/bench-signals
	@tests/servers/with-radosgw tools/bench-signals build-release $(if $(BEFORE),--before $(BEFORE)) $(ARGS)

bench-events: deps-tests deps-servers build-release/build.ninja ## events to a NATS server: catching up, and the commit time with and without
	@ninja -C build-release src/cli/sluice bench/bench-events
	@tests/servers/with-nats tools/bench-events build-release $(ARGS)

bench-clients: deps-tests deps-servers build-release/build.ninja ## the client libraries beside the C client, BullMQ and Celery on Redis
	@ninja -C build-release src/cli/sluice
	@test -d build-release/bullmq || npm install --silent --prefix build-release/bullmq bullmq ioredis || true
	@NODE_PATH=$(CURDIR)/build-release/bullmq/node_modules tools/bench-clients build-release/src/cli/sluice $(ARGS)

bench-cluster: deps-tests deps-servers build-release/build.ninja ## three nodes beside one on a bucket; requests of idle nodes
	@ninja -C build-release src/cli/sluice bench/bench-cluster
	@tests/servers/with-radosgw tools/bench-cluster build-release --idle 180 $(ARGS)

chaos: build-tests ## minutes of workers killed at random on one directory: CHAOS_SECONDS=180
	@$(BUILD)/tests/chaos/chaos --seconds $(CHAOS_SECONDS) $(ARGS)

chaos-bucket: build-tests deps-servers ## the same on a bucket: requests meet faults, its server is killed too
	@tests/servers/with-radosgw $(BUILD)/tests/chaos/chaos --faults --restarts --timeout 1000 --processes 4 --workers 6 \
		--seconds $(CHAOS_SECONDS) $(ARGS)

chaos-cluster: build-tests deps-servers ## three nodes on each service and store: KILLS=20 kills, transfers, outages of 30 s
	@SLUICE=$(BUILD)/src/cli/sluice tests/member/everywhere.py --one-by-one --long $(or $(KILLS),20)
	@for under in "" "tests/servers/with-coord etcd" "tests/servers/with-coord consul"; do \
		SLUICE=$(BUILD)/src/cli/sluice $$under tests/member/takeover.py --rounds $(or $(KILLS),20) || exit 1; done
	@for server in etcd consul; do SLUICE=$(BUILD)/src/cli/sluice tests/servers/with-coord $$server \
		tests/member/away.py --rounds $(or $(KILLS),20) || exit 1; done

chaos-events: build-tests deps-servers ## nodes and NATS servers killed and cut off under load, ROUNDS=20; then one and three servers, the stream compared
	@ninja -C $(BUILD) src/cli/sluice tests/publish/bus-dump
	@for servers in 1 3; do SLUICE=$(BUILD)/src/cli/sluice BUS_DUMP=$(BUILD)/tests/publish/bus-dump \
		tests/servers/with-nats --nodes $$servers tests/publish/publish.py --long $(or $(ROUNDS),20) || exit 1; done

chaos-import: build-tests deps-servers ## JOBS=100000 jobs of a beanstalkd imported, the import killed again and again
	@tests/cli/import_many.py $(BUILD)/src/cli/sluice --jobs $(or $(JOBS),100000) $(ARGS)

chaos-node: build-tests ## the same over HTTP: the node is killed every two seconds too
	@$(BUILD)/tests/chaos/chaos --node $(BUILD)/src/cli/sluice --seconds $(CHAOS_SECONDS) $(ARGS)

chaos-redis: build-tests deps-servers ## the same on Redis: one server, Sentinels, a cluster; loss of power, reconnects
	@for form in "" "--sentinel --url durability=replicas:1" --cluster; do \
		tests/servers/with-redis $$form $(BUILD)/tests/chaos/chaos --redis --restarts --timeout 1000 --processes 4 \
		--workers 6 --seconds $(CHAOS_SECONDS) $(ARGS) || exit 1; done
	@tests/servers/with-redis $(BUILD)/tests/redis/redis_server 10000 60000
	@tests/servers/with-redis --preload $(BUILD)/tests/redis/redis_preload.so $(BUILD)/tests/redis/redis_power 100

chaos-remount: build-tests ## a file system that goes down and is mounted again, 100 times; needs root
	@$(BUILD)/tests/integration/integration_remount 100

chaos-stop: build-tests ## a writer that is stopped in a commit, 100 times: how long the others wait (9 minutes)
	@$(BUILD)/tests/conformance/store/test_store_stopped 100

chaos-signals: build-tests deps-servers ## JOBS=1000 jobs with 10 signals each while nodes and workers are killed, polls cut after every byte: directory, bucket
	@for with in "" tests/servers/with-radosgw; do \
		SLUICE=$(BUILD)/src/cli/sluice $$with tests/member/signals.py --long $(or $(JOBS),1000) || exit 1; done

chaos-workers: build-tests deps-servers ## 200 registered workers killed and stopped, their coordinator killed every 5 s: directory, bucket, three nodes
	@for form in "" "--nodes 3" "--bucket"; do \
		with=$$(test "$$form" = --bucket && echo tests/servers/with-radosgw); \
		$$with $(BUILD)/tests/chaos/fleet --node $(BUILD)/src/cli/sluice --workers 200 --processes 10 --ttl 10000 \
		--lease 15000 --seconds $(or $(WORKERS_SECONDS),60) $$form $(ARGS) || exit 1; done

crossings: deps build-crossings/build.ninja ## how often a waiting receive over HTTP crosses folders of src/
	@ninja -C build-crossings src/cli/sluice
	@tools/count-crossings build-crossings $(ARGS)

load: deps-tests build-release/build.ninja ## a node under load: 200 workers, 2,000 long polls, a million requests
	@ninja -C build-release src/cli/sluice tests/load/workers tests/load/polls tests/load/million
	@build-release/tests/load/workers build-release/src/cli/sluice --messages 200000
	@build-release/tests/load/polls build-release/src/cli/sluice
	@build-release/tests/load/million build-release/src/cli/sluice

run: deps $(BUILD)/build.ninja ## a node with its dashboard, until Ctrl-C: LISTEN=127.0.0.1:7333 SLUICE_STORE=URL
	@ninja -C $(BUILD) src/cli/sluice
	@tools/run $(BUILD)/src/cli/sluice

demo: deps $(BUILD)/build.ninja ## 2,000 jobs, workers killed with -9 on the way, and what became of them
	@ninja -C $(BUILD) src/cli/sluice
	@tools/demo $(BUILD)/src/cli/sluice

cluster: deps $(BUILD)/build.ninja ## three nodes, one killed every few seconds, and their table live: CLUSTER_SECONDS=600
	@ninja -C $(BUILD) src/cli/sluice
	@tools/cluster --program $(BUILD)/src/cli/sluice --seconds $(or $(CLUSTER_SECONDS),600) $(ARGS)

clients: deps-servers with-tests ## the client libraries: generated files, then suites and long storms of Python, Node.js and Go
	@tools/make-clients --check
	@ninja -C $(BUILD) src/cli/sluice
	@for language in python node go; do for what in test storm "load 20000"; do \
		RACE=1 SLUICE=$(CURDIR)/$(BUILD)/src/cli/sluice clients/$$language/$$what || exit 1; done; done

install: deps build-install/build.ninja ## library, command, man pages, completion: PREFIX=/usr/local DESTDIR=
	@meson configure build-install --prefix $(PREFIX)
	@ninja -C build-install $$(tools/installed-targets build-install)
	@DESTDIR=$(DESTDIR) meson install -C build-install --no-rebuild --quiet

deb: deps ## Debian packages into build-deb/: sluice, libsluice0, libsluice-dev, sluice-doc
	@tools/deps.sh deb
	@packaging/make-deb build-deb
	@lintian --allow-root --fail-on error,warning --profile debian build-deb/*.changes

bundle: deps build-release/build.ninja ## the program and its libraries in a tarball, for any Linux: build-release/bundle
	@ninja -C build-release src/cli/sluice
	@packaging/make-bundle build-release/src/cli/sluice build-release/bundle

image: bundle ## a container image without a registry, with buildah: IMAGE=sluice:latest
	@tools/deps.sh image
	@packaging/make-image $$(ls -d build-release/bundle/sluice-*/) $(or $(IMAGE),sluice:latest)

dist: deps $(BUILD)/build.ninja ## the source tarball of the last commit: build/meson-dist
	@meson dist -C $(BUILD) --no-tests

package-test: deb dist bundle ## packages in a fresh Debian, two equal builds, the image: needs root
	@tools/deps.sh image
	@tests/package/debian-root build-deb $(CURDIR)/build-root
	@tests/package/twice $$(ls $(BUILD)/meson-dist/sluice-*.tar.xz) build-twice
	@tests/package/image $$(ls -d build-release/bundle/sluice-*/) build-image

manifests: deps ## write packaging/kubernetes from the Helm chart
	@tools/deps.sh clients
	@tests/package/helm/chart.sh $(BUILD)/tests/package/helm-modules $(CURDIR) --write

chart: ## the Helm chart as a tarball: build-chart/sluice-VERSION.tgz
	@packaging/make-chart build-chart

hooks: ## a git hook that checks the message and size of each commit
	@install -D -m 755 tools/commit-msg "$$(git rev-parse --git-path hooks)/commit-msg"

settings: deps $(BUILD)/build.ninja ## write the texts that come from the tables of settings and of calls
	@tools/check-settings . --write $(or $(CC),cc)
	@ninja -C $(BUILD) src/print-calls >/dev/null
	@tools/check-openapi --write . $(BUILD)/src/print-calls
	@tools/make-clients

format: deps-tests ## rewrite the sources in the project's layout
	@tools/sources | xargs -r clang-format -i

lint: deps-lint $(BUILD)/build.ninja ## clang-tidy over src/
	@tools/sources src | grep '\.c$$' | xargs -r -P 2 -n 4 clang-tidy --quiet -p $(BUILD)

clean: ## remove the build directories
	@rm -rf $(BUILD) build-asan build-tsan build-fuzz build-release build-install build-crossings build-deb build-chart build-root

# Meson's words are shown only when it fails.
setup = @words=$$($(1) meson setup $(@D) $(2) 2>&1) || { echo "$$words"; exit 1; }

$(BUILD)/build.ninja:
	$(call setup)
build-asan/build.ninja:
	$(call setup,CC=clang,-Db_sanitize=address$(comma)undefined -Db_lundef=false)
build-tsan/build.ninja:
	$(call setup,,-Db_sanitize=thread -Db_lundef=false)
build-fuzz/build.ninja:
	$(call setup,CC=clang,-Dfuzz=true -Db_sanitize=address$(comma)undefined -Db_lundef=false)
build-release/build.ninja:
	$(call setup,,--buildtype release)
build-install/build.ninja:
	$(call setup,,--buildtype release --prefix $(PREFIX))
build-crossings/build.ninja:
	$(call setup,,--buildtype debug -Dwerror=false \
		-Dc_args="-finstrument-functions -finstrument-functions-exclude-file-list=src/base/$(comma)src/os/")

comma := ,
