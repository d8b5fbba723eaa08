# All targets need Go and git. `race` also needs a C compiler. Tests skip the clients of
# languages that are not installed.

VERSION ?= $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
GO      ?= go
BIN     := bin

# Arguments for `make run` and `make bench`, such as ARGS="--data-dir=data".
ARGS ?=

# No C code is linked, so the binary runs in an empty image. All targets share these
# flags, and so one build cache: the first build takes minutes, the next ones seconds.
export CGO_ENABLED := 0
export GOFLAGS     := -trimpath -buildvcs=false

# The version of the Kubernetes that is built in, which /version answers.
KUBERNETES = $(shell $(GO) list -m -f '{{.Version}}' k8s.io/kubernetes)
KUBE_MINOR = $(word 2,$(subst ., ,$(KUBERNETES)))
KUBE_LDFLAGS = $(foreach pkg,k8s.io/component-base/version k8s.io/client-go/pkg/version, \
	-X $(pkg).gitVersion=$(KUBERNETES) -X $(pkg).gitMajor=1 -X $(pkg).gitMinor=$(KUBE_MINOR))

LDFLAGS = -s -w -X main.version=$(VERSION) $(KUBE_LDFLAGS)
BUILD   = $(GO) build -ldflags "$(LDFLAGS)"

# Tests against a kube-apiserver, which knows its version, know theirs too.
ORACLE_TEST = $(GO) test -ldflags "$(KUBE_LDFLAGS)" -count=1

.DEFAULT_GOAL := build

.PHONY: build
build: ## build bin/millrace, bin/millrace-tools and bin/millrace-lab
	$(BUILD) -o $(BIN)/ ./cmd/...

# What makes images and releases is a module of its own.
.PHONY: bin/releaser
bin/releaser:
	$(GO) -C internal/build/release build -o $(CURDIR)/$@ ./cmd

# The image's architecture, and the certificates that webhooks are verified by in it.
ARCH  ?= $(shell $(GO) env GOARCH)
ROOTS ?= /etc/ssl/certs/ca-certificates.crt

RELEASE_FLAGS = -version "$(VERSION)" -ldflags "$(LDFLAGS)" -roots $(ROOTS)

# An OCI image layout, which container runtimes import. No container engine is needed, and
# the same sources and ROOTS give the same bytes.
.PHONY: image
image: bin/releaser ## make a container image, bin/millrace-ARCH.tar
	bin/releaser image $(RELEASE_FLAGS) -platform linux/$(ARCH) -out bin/millrace-$(ARCH).tar

OUT ?= bin/release

# KEY is a private key. PLATFORMS are the only ones to build for, with commas between them.
# DIRTY=1 allows files that differ from the commit.
.PHONY: release
release: bin/releaser ## make the release VERSION in OUT, signed by KEY (docs/releases.md)
	rm -rf $(OUT)
	bin/releaser make $(RELEASE_FLAGS) $(KEY:%=-key %) $(PLATFORMS:%=-platforms %) $(DIRTY:%=-dirty) -out $(OUT)

# The second release is made in a clone, so that paths and files without a commit show. The
# key is thrown away.
CHECK = $(CURDIR)/bin/release-check

.PHONY: release-check
release-check: VERSION = v0.0.0-check
release-check: KEY = $(CHECK)/key.pem
release-check: ## make the release twice, compare, verify, and run the programs for this machine; needs openssl
	rm -rf $(CHECK)
	git clone --quiet . $(CHECK)/clone
	openssl genpkey -algorithm ed25519 -out $(KEY)
	openssl pkey -in $(KEY) -pubout -out $(KEY).pub
	$(MAKE) release VERSION=$(VERSION) KEY=$(KEY) OUT=$(CHECK)/release
	$(MAKE) -C $(CHECK)/clone release VERSION=$(VERSION) KEY=$(KEY)
	diff -r $(CHECK)/release $(CHECK)/clone/bin/release
	bin/releaser verify -key $(KEY).pub $(CHECK)/release
	cd $(CHECK)/release && sha256sum --check --quiet SHA256SUMS && \
		openssl pkeyutl -verify -pubin -inkey $(KEY).pub -rawin -in SHA256SUMS -sigfile SHA256SUMS.sig
	set -e; cd $(CHECK); for archive in release/*-linux-$$($(GO) env GOARCH).tar.gz; do \
		tar -xzf $$archive; name=$$(basename $$archive .tar.gz); $$name/$${name%-$(VERSION)-*} --version; done
	rm -rf $(CHECK)

.PHONY: run
run: ## build bin/millrace, then serve alone out of ./millrace-data
	$(BUILD) -o $(BIN)/ ./cmd/millrace
	./$(BIN)/millrace serve $(ARGS)

.PHONY: modules
modules: ## fetch the modules that test/equal/crds and test/whole/monitoring read; missing ones are skipped
	cd test/equal/crds/definitions && $(GO) mod download || echo "test/equal/crds skips the definitions of missing modules"
	cd test/whole/monitoring/promql && $(GO) mod download || echo "test/whole/monitoring skips Prometheus' parser"

.PHONY: clients
clients: bin/venv/installed bin/node/installed ## install the clients in Python and Node for test/equal/clients, which skips missing ones

# Nothing is compiled, and nothing outside of bin is changed.
bin/venv/installed: test/equal/clients/requirements.txt
	python3 -m venv bin/venv && \
		bin/venv/bin/python -m pip install --quiet --only-binary :all: -r $< && touch $@ || \
		echo "test/equal/clients skips missing clients in Python"

bin/node/installed: test/equal/clients/package.json
	mkdir -p bin/node && cp $< bin/node/
	cd bin/node && npm install --silent --ignore-scripts --no-audit --no-fund && touch installed || \
		echo "test/equal/clients skips Kubernetes' client for Node"

# Tests with servers mostly wait for them. Four packages at a time keep two processors busy; five starve
# each other.
.PHONY: test
test: modules clients ## check go.mod, vet, then run the tests
	$(GO) mod tidy -diff
	$(GO) vet ./...
	$(GO) test -p 4 -timeout 30m ./...
	cd internal/build/release && $(GO) mod tidy -diff && $(GO) vet ./... && $(GO) test ./...

.PHONY: race
race: export CGO_ENABLED := 1
race: ## run the tests with the race detector
	$(GO) test -race -timeout 30m ./...

# The packages whose tests change the checked structures. Only these packages are built
# anew, not their dependencies.
.PHONY: invariants
invariants: ## run the tests of the cache and its readers with checks after each change
	$(GO) test -tags invariants -timeout 30m ./internal/tier/cache ./internal/tier/watch ./internal/wire/encode ./internal/tier/storage ./internal/tier/read

.PHONY: robustness
robustness: export MILLRACE_ROBUSTNESS := 1
robustness: ## run the tests under faults, which take minutes and need a quiet machine
	$(GO) test -count=1 -v -p 1 -timeout 20m ./test/fault/robustness ./test/fault/informers ./test/fault/slo ./test/whole/many ./test/whole/replica
	MILLRACE_KUBE_APISERVER=$(wildcard $(CURDIR)/bin/kube-apiserver) $(ORACLE_TEST) -v -timeout 40m -run '^TestTree$$' ./test/fault/injection

# For each way a server is built that is broken.
.PHONY: verify-mutations
verify-mutations: export MILLRACE_PLANTED := 1
verify-mutations: ## break the server in each of some thirty ways, and check that verify finds it; 25 minutes
	$(GO) test -count=1 -v -timeout 2h -run '^TestMutations?$$' -p 1 ./test/whole/mutations ./test/fault/injection

bin/helm: test/equal/programs/helm/go.mod
	cd test/equal/programs/helm && $(GO) build -o $(CURDIR)/$@ helm.sh/helm/v4/cmd/helm

# CI only checks the golden files.
.PHONY: charts
charts: export MILLRACE_HELM := $(CURDIR)/bin/helm
charts: bin/helm ## render, lint and check the charts of deploy/charts; ARGS=-update writes their golden files
	$(GO) test -count=1 -v ./test/whole/charts $(ARGS)

# What CI runs of these tests is short, and has no helm.
.PHONY: programs
programs: export MILLRACE_ROBUSTNESS := 1
programs: export MILLRACE_HELM := $(CURDIR)/bin/helm
programs: bin/helm ## run kubectl, helm, an operator, controllers and the scheduler through replicas
	$(GO) test -count=1 -v -timeout 40m ./test/equal/programs

bin/conformance-suite: test/equal/conformance/suite/go.mod test/equal/conformance/suite/suite_test.go
	cd $(<D) && $(GO) test -c -ldflags "$(KUBE_LDFLAGS)" -o $(CURDIR)/$@ .

# Most of the time is that of waiting: the tests run one after the other, each way beside the others.
.PHONY: conformance
conformance: export MILLRACE_CONFORMANCE_SUITE := $(CURDIR)/bin/conformance-suite
conformance: export MILLRACE_KUBE_APISERVER := $(CURDIR)/bin/kube-apiserver
conformance: bin/conformance-suite bin/kube-apiserver ## run Kubernetes' conformance tests at a kube-apiserver, at this server and through a replica
	$(ORACLE_TEST) -timeout 4h -v ./test/equal/conformance

DURATION ?= 30s

.PHONY: attacks
attacks: export MILLRACE_ATTACKS := $(DURATION)
attacks: export MILLRACE_ATTACKS_TABLE := $(CURDIR)/docs/bench/tables/attacks.md
attacks: ## run known attacks of DURATION each on this server and on Go's, and write docs/bench/tables/attacks.md
	$(GO) test -count=1 -v -timeout 8h -run '^TestAttacks$$' ./test/fault/attacks

.PHONY: attacks-replica
attacks-replica: export MILLRACE_REPLICA_ATTACKS := $(DURATION)
attacks-replica: export MILLRACE_ATTACKS_TABLE := $(CURDIR)/docs/bench/tables/attacks-replica.md
attacks-replica: ## run attacks of DURATION each on a replica and on the server behind it, and write docs/bench/tables/attacks-replica.md
	$(GO) test -count=1 -v -timeout 8h -run '^TestReplicaAttacks$$' ./test/fault/attacks

# What CI runs of these two tests is a minute long.
.PHONY: definitions
definitions: DURATION = 1h
definitions: ## change definitions at random for DURATION while clients use their objects, beside the stock server
	MILLRACE_SEED=$(SEED) MILLRACE_CHANGES_DURATION=$(DURATION) $(GO) test -count=1 -timeout 24h -v ./test/fault/definitions

# DURATION is that of each of its three parts.
.PHONY: stored-values
stored-values: DURATION = 20m
stored-values: ## write odd values into etcd for three times DURATION, beside the stock server
	MILLRACE_SEED=$(SEED) MILLRACE_VALUES_DURATION=$(DURATION) $(GO) test -count=1 -timeout 24h -v ./test/fault/storedvalues

# The seed of the long comparisons, "new" for a random one. A run prints its seed, and
# SEED=1234 repeats the run with that seed.
SEED ?= new

REQUESTS ?= 30000

# OLDER is the share, in percent, of objects that are stored as an older version would.
OLDER ?= 20

.PHONY: differential
differential: export MILLRACE_OLDER := $(OLDER)
differential: export MILLRACE_REQUESTS := $(REQUESTS)
differential: export MILLRACE_SEED := $(SEED)
differential: ## compare REQUESTS random requests, and watches, with the stock read path
	$(GO) test -count=1 -timeout 60m -v -run 'TestReadPathsAgree/(combined|matrix|under|settings|compacted|pages|tokens)|TestDiscoveryAgrees' ./test/equal/differential
	MILLRACE_REQUESTS=$$(($(REQUESTS) / 4)) $(GO) test -count=1 -timeout 60m -v -run 'TestReadPathsAgree/watch' ./test/equal/differential

bin/kube-apiserver bin/kube-scheduler bin/kube-controller-manager: go.mod
	$(GO) build -ldflags "$(KUBE_LDFLAGS)" -o $@ k8s.io/kubernetes/cmd/$(@F)

# The stock read path is part of our program elsewhere. Here it is the whole program that
# Kubernetes makes of the same modules.
.PHONY: differential-kube-apiserver
differential-kube-apiserver: export MILLRACE_KUBE_APISERVER := $(CURDIR)/bin/kube-apiserver
differential-kube-apiserver: bin/kube-apiserver ## build kube-apiserver and compare requests, watches and documents with it
	$(ORACLE_TEST) -timeout 60m -v -run 'TestReadPathsAgree|TestDiscoveryAgrees|TestEmulatedVersionAgrees' ./test/equal/differential

# Other versions of Kubernetes are built in modules of their own.
bin/kube-apiserver-1.%: test/support/oracle/v1.%/go.mod
	cd $(<D) && $(GO) build -ldflags "-X k8s.io/component-base/version.gitVersion=$$($(GO) list -m -f '{{.Version}}' k8s.io/kubernetes)" \
		-o $(CURDIR)/$@ k8s.io/kubernetes/cmd/kube-apiserver

# What differential-replica compares with: the version of a kube-apiserver that bin has or
# gets, and for each feed the numbers of random requests and of scripts of writes.
UPSTREAM ?= 1.$(KUBE_MINOR)
SCRIPTS  ?= 100
ORACLE    = bin/kube-apiserver$(if $(filter-out 1.$(KUBE_MINOR),$(UPSTREAM)),-$(UPSTREAM))

.PHONY: differential-replica
differential-replica: export MILLRACE_SEED := $(SEED)
differential-replica: REQUESTS = 3000
differential-replica: ## compare replicas with a kube-apiserver of version UPSTREAM and with this server, for each feed
	$(MAKE) $(ORACLE)
	MILLRACE_KUBE_APISERVER=$(CURDIR)/$(ORACLE) MILLRACE_REPLICA_REQUESTS=$(REQUESTS) MILLRACE_REPLICA_SCRIPTS=$(SCRIPTS) \
		$(ORACLE_TEST) -timeout 120m -v -run '^TestReplicaAgrees$$' ./test/equal/differential

SEEDS ?= 200

# What verify-faults runs: how often, and what the servers are: own, stock, or mixed, of
# which one is a kube-apiserver of version UPSTREAM, which is built if bin has none.
RUNS    ?= 1
SERVERS ?= own

.PHONY: verify-faults
verify-faults: export MILLRACE_ROBUSTNESS := 1
verify-faults: export MILLRACE_SEED := $(SEED)
verify-faults: export MILLRACE_FAULTS_RUNS := $(RUNS)
verify-faults: export MILLRACE_FAULTS_SERVERS := $(SERVERS)
verify-faults: ## verify servers and replicas at two depths under injected faults, RUNS times
	$(if $(filter-out own,$(SERVERS)),$(MAKE) $(ORACLE))
	MILLRACE_KUBE_APISERVER=$(CURDIR)/$(ORACLE) $(ORACLE_TEST) -timeout 12h -v -skip '^TestTree$$' ./test/fault/injection

# SCRIPTS is the number of scripts for each upstream, and SEED the seed of the first one.
# DISTURBED is how many more there are whose upstream is killed, frozen and restarted. CI runs ten.
DISTURBED ?= 10

.PHONY: living
living: export MILLRACE_SEED := $(SEED)
living: export MILLRACE_LIVING_SCRIPTS := $(SCRIPTS)
living: export MILLRACE_LIVING_DISTURBED := $(DISTURBED)
living: export MILLRACE_LIVING_CLIENTS := 12
living: export MILLRACE_LIVING_STEPS := 20
living: ## read through replicas of all feeds while the world behind them changes, SCRIPTS times for each upstream
	$(GO) test -count=1 -timeout 24h -v ./test/fault/living

.PHONY: living-versions
living-versions: export MILLRACE_SEED := $(SEED)
living-versions: export MILLRACE_LIVING_DISTURBED := $(DISTURBED)
living-versions: export MILLRACE_LIVING_DISTURBANCES := version
living-versions: export MILLRACE_LIVING_UPSTREAMS := $(CURDIR)/bin/kube-apiserver-1.35,$(CURDIR)/bin/kube-apiserver-1.36,$(CURDIR)/bin/kube-apiserver
living-versions: export MILLRACE_LIVING_STEPS := 20
living-versions: bin/kube-apiserver-1.35 bin/kube-apiserver-1.36 bin/kube-apiserver ## the same while the upstream goes from 1.35 to 1.37 and back, DISTURBED times
	$(GO) test -count=1 -timeout 24h -v -run '^TestDisturbed$$' ./test/fault/living

# For each fault a test binary is built that has it.
.PHONY: living-planted
living-planted: export MILLRACE_PLANTED := 1
living-planted: ## plant faults that the replica has had, and check that living or another test finds each; 40 minutes
	$(GO) test -count=1 -timeout 4h -v -run '^TestPlanted$$' ./test/fault/living/planted

.PHONY: crds
crds: export MILLRACE_CRD_SEEDS := $(SEEDS)
crds: export MILLRACE_SEED := $(SEED)
crds: modules ## compare SEEDS random definitions, and those of other projects, with the stock server
	$(GO) test -count=1 -timeout 90m -v ./test/equal/crds

.PHONY: lint
lint: ## check the house rules
	$(GO) test -count=1 ./internal/build/lint

# The versions of Kubernetes that upstream-diff compares: FROM is what go.mod requires,
# unless it is given.
FROM ?=
TO   ?=

.PHONY: upstream-diff
upstream-diff: ## print what changes in the counterparts of our functions between Kubernetes FROM and TO
	@$(GO) run ./internal/build/counterpart/cmd diff -from "$(FROM)" -to "$(TO)"

.PHONY: upstream-require
upstream-require: ## write the versions that Kubernetes TO requires into go.mod
	$(GO) run ./internal/build/counterpart/cmd require -to "$(TO)"
	$(GO) mod tidy

.PHONY: upstream-accept
upstream-accept: ## note that our functions follow their counterparts in the version that go.mod requires
	$(GO) run ./internal/build/counterpart/cmd accept

.PHONY: bench
bench: build ## measure LIST, beside the stock read path
	./$(BIN)/millrace-lab bench list --compare $(ARGS)

.PHONY: scale
scale: ## compute the prices of millrace-tools model, and the tables and plots of docs/scale.md, anew from docs/bench
	$(GO) test -count=1 ./internal/tool/model -run TestConstants -update
	$(GO) test -count=1 ./internal/tool/model -run TestScale -update
	$(GO) test -count=1 ./internal/tool/model

.PHONY: tables
tables: ## write docs/bench/tables, and the plots in docs/bench, anew from the reports there
	$(GO) test -count=1 ./internal/lab/bench -run '^TestTables$$' -update

.PHONY: papers
papers: ## write docs/bench/tables/papers.md anew from the saved reports
	$(GO) test -count=1 ./internal/lab/papers -run TestTables -update

FUZZTIME ?= 1m

# How many edited objects are transcoded and encoded.
INPUTS ?= 1000000

# The targets over HTTP fuzz servers in processes of their own, whose coverage the fuzzer
# does not see. So all of Kubernetes is not built with instrumentation.
.PHONY: fuzz
fuzz: ## fuzz the parsers of encoded bytes and requests, FUZZTIME each
	$(GO) test -run NONE -fuzz FuzzSplit -fuzztime $(FUZZTIME) ./internal/wire/encode
	$(GO) test -run NONE -fuzz FuzzZstdFrame -fuzztime $(FUZZTIME) ./internal/wire/encode
	$(GO) test -run NONE -fuzz FuzzAppend -fuzztime $(FUZZTIME) ./internal/wire/deflate
	$(GO) test -run NONE -fuzz FuzzCustom -fuzztime $(FUZZTIME) ./internal/wire/transcode
	$(GO) test -run NONE -fuzz FuzzAgainstEncodingJSON -fuzztime $(FUZZTIME) ./internal/wire/storedjson
	$(GO) test -run NONE -fuzz FuzzRead -fuzztime $(FUZZTIME) ./internal/wire/sentobject
	$(GO) test -run NONE -fuzz FuzzScan -fuzztime $(FUZZTIME) ./internal/tool/auditlog
	$(GO) test -run NONE -fuzz FuzzWrappers -fuzztime $(FUZZTIME) ./internal/tool/auditlog
	$(GO) test -run NONE -fuzz FuzzTargets -fuzztime $(FUZZTIME) ./internal/replica/handler
	$(GO) test -c -o bin/differential.test ./test/equal/differential
	cd test/equal/differential && for target in FuzzSelectors FuzzPages FuzzAccept FuzzRaw; do \
		../../../bin/differential.test -test.run NONE -test.fuzz "^$$target$$" -test.fuzztime $(FUZZTIME) \
			-test.parallel 1 -test.fuzzcachedir ../../../bin/fuzz || exit 1; \
	done
	$(GO) test -c -o bin/transcode.test ./test/equal/transcode
	cd test/equal/transcode && ../../../bin/transcode.test -test.run NONE -test.fuzz '^FuzzStored$$' \
		-test.fuzztime $(FUZZTIME) -test.fuzzcachedir ../../../bin/fuzz && \
		../../../bin/transcode.test -test.v -test.run TestEditedObjects -inputs=$(INPUTS) -seed=$$(date +%s)

.PHONY: clean
clean: ## remove bin; the data directory stays
	rm -rf bin

.PHONY: help
help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-15s %s\n", $$1, $$2 }' Makefile
