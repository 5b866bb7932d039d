# Everything a developer runs. `make help` lists it.

.DEFAULT_GOAL := help
.PHONY: help build try demo test lanes nightly nightly-parts mutate mutate-changed unit e2e beside monitoring simulate-faults random-tests soak bench bench-once fuzz compare parity parity138-rules lint prose-update lint-product lint-large clean \
	examples examples-demo plugged gang-bench neighbours reports image push release release-test charts charts-test kubectl-size shadow-demo

BIN := bin
GO  ?= go
# Where TIMES names a folder, commands write their times to it, and tools/times adds them up.
ifdef TIMES
export TIMES
export PATH := $(abspath tools/times/timed):$(PATH)
TIMED := $(abspath tools/times/timed/command)
endif
# The Kubernetes release that Berth stands in for: what --version, /metrics and the feature gates go by.
K8S := k8s.io/component-base/version
VERSION := -X $(K8S).gitVersion=v1.37.1+berth -X $(K8S).gitMajor=1 -X $(K8S).gitMinor=37
# Everything is compiled in one of two ways, so that builds, tests, go vet and the linter share Go's build cache: without cgo, or with the race detector, which needs a C compiler.
# With -trimpath a clone in another folder shares it too, and the results of tests whose code is the same.
# What go test would vet is vetted by `make lint`, once. Nothing is compiled or linked with DWARF, which takes a tenth of the time that compiling takes and a third of that for linking, nor linked
# with a table of symbols, which takes a fifth of the rest: what is published has neither anyway.
OWN_FLAGS := -trimpath -vet=off -ldflags=-s -gcflags=all=-dwarf=false
export GOFLAGS := $(filter-out $(OWN_FLAGS),$(shell $(GO) env GOFLAGS)) $(OWN_FLAGS)
export CGO_ENABLED := 0
RACE := CGO_ENABLED=1 $(GO) test -race
LDFLAGS := -s -w $(VERSION)
# The release of the development cluster. Clients such as Kueue refuse an API server that does not tell its version.
CLUSTER_VERSION = $(shell awk '$$1 == "k8s.io/kubernetes" { print $$2 }' devcluster/go.mod)
# Go reads Berth's version and commit from git where there is one.
BUILD := $(GO) build -buildvcs=auto -ldflags='$(LDFLAGS)'
# The modules of this repository; the second line are those that import whole programs: Prometheus, Helm, Kubernetes. parity/moved is built with a module file that it writes, and linted with
# an overlay, see below.
MODULES       := . tools/release tools/prose tools/times tools/numbers examples/sample-plugin examples/gang-plugin neighbours
LARGE_MODULES := deploy/monitoring deploy/helm/test devcluster devcluster/provisioner devcluster/driver parity framework/compat

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: $(BIN)/berth ## build the scheduler into bin/berth

try: $(BIN)/berth ## schedule an example on 1,005 nodes in memory, and explain a pending pod; builds nothing but Berth
	@examples/try.sh $(BIN)

# What is published is built with this version of Go, which Go fetches where it is another: the bytes depend on it.
RELEASE := $(GO) run -C tools/release .
image push release: export GOTOOLCHAIN := go1.26.8

image: ## build the container image for linux/amd64 and linux/arm64 into bin/berth.tar, an OCI archive, and print its digest; no container engine is needed
	@mkdir -p $(BIN)
	@$(RELEASE) image --ldflags='$(LDFLAGS)' --output $(abspath $(BIN))/berth.tar

push: ## push bin/berth.tar to a registry; REFERENCE=registry.example/berth:v0.1.0
	@$(RELEASE) push $(abspath $(BIN))/berth.tar '$(REFERENCE)'

release: ## build binaries for Linux, macOS and Windows and SHA256SUMS into bin/release
	@$(RELEASE) binaries --ldflags='$(LDFLAGS)' --output $(abspath $(BIN))/release

release-test: ## tests of what is published: two builds of the commit are equal, the image has what it must and can be pushed
	cd tools/release && $(NICE) $(GO) test -count=1 -timeout 20m ./...

charts: ## make deploy/kustomize from the Helm chart
	cd deploy/helm/test && $(GO) run ./generate ../berth ../../kustomize

charts-test: $(BIN)/berth $(BIN)/devcluster $(BIN)/provisioner $(BIN)/driver ## the Helm chart and deploy/kustomize: what they render, and a release in a development cluster
	cd deploy/helm/test && BERTH_E2E_BIN=$(abspath $(BIN)) $(GO) test -count=1 -timeout 10m ./...

demo: $(BIN)/berth $(BIN)/devcluster ## start a cluster of 500 nodes, schedule an example with Berth, report, stay up on a terminal
	@$(GO) run ./internal/proof/e2e/demo -bin $(BIN) -example examples/demo.yaml

# Compilers, linters, tests and clusters collect garbage more seldom than by default, which takes an eighth of the time that compiling takes, and a quarter of an API server's.
TEST_GOGC ?= 400

test: ## all tests: lint, unit and property tests, integration with a real API server, the Helm chart, comparison with kube-scheduler, example plugins, benchmarks once, fuzzing, a sample of mutants
	@rm -rf $(BIN)/times; mkdir -p $(BIN)/times
	@began=$$(date +%s); GOGC=$(TEST_GOGC) $(MAKE) --no-print-directory -j3 $(if $(findstring output-sync,$(.FEATURES)),--output-sync=target) LANES=1 TIMES=$(abspath $(BIN)/times) lanes; result=$$?; \
		$(GO) run -C tools/times . -real $$(($$(date +%s) - began)) $(abspath $(BIN)/times); exit $$result

lanes: unit monitoring bench-once lint fuzz mutate-changed e2e charts-test release-test beside examples

# Three lanes run side by side: unit tests; integration tests, which mostly wait for clocks and for leases; and what is held against kube-scheduler, then what computes for a given time.
# In a lane one goes after another. What computes yields to the clusters. The linters go where the others are done first, which is long before all unit tests are: these keep one core busy for
# minutes here and there. Programs are built one after another, because they share much of what is compiled, which Go would else compile twice.
ifdef LANES
NICE := nice -n 10
charts-test: | e2e
release-test: | charts-test
monitoring: | release-test
bench-once: | monitoring
fuzz: | examples
mutate-changed: | fuzz
lint-product: | mutate-changed
$(BIN)/devcluster: | $(BIN)/berth
$(BIN)/provisioner $(BIN)/driver $(BIN)/kubectl $(BIN)/kube-scheduler: | $(BIN)/devcluster
$(BIN)/moved-kube-scheduler: | $(BIN)/kube-scheduler
examples: | beside
lint-large: | bench-once $(BIN)/moved-berth
endif

# The packages in which goroutines meet: their code or their tests start some, or share something between some. The race detector, under which tests take many times
# as long, sees what these use of the other packages, too. What a plugin shares between engines is seen by the tests of the engine; the plugin's own tests have one goroutine, unless they start more.
# So have the oracle's, whose helper runs the seeds of other packages' tests side by side.
# Nor is it run over the programs that drive end-to-end tests, whose tests do little without a cluster.
DRIVERS = ':(exclude,glob)internal/proof/e2e/*.go' ':!internal/proof/e2e/shadowdemo'
STARTS = ^[[:space:]]*go [a-z]|sync[.]WaitGroup|[.]Go\(|"testing/synctest"|[.](Run)?Parallel\(
CONCURRENT = $(shell (git grep -lE '$(STARTS)' -- app cmd examples/trial framework internal ':!internal/proof/oracle' $(DRIVERS); git grep -l '"sync"' -- app cmd examples/trial framework internal ':!internal/decide/plugins' $(DRIVERS)) | \
	grep '[.]go$$' | xargs -n 1 dirname | sort -u | sed 's|^|./|')
# Of these, the packages whose tests do less under the race detector, and all of it without. They take longest, so they go first: else one runs alone at the end.
TWICE = $(filter $(CONCURRENT),$(shell git grep -lE 'build[.](Raced|UnlessRaced|NotRaced)' -- '*_test.go' | xargs -n 1 dirname | sort -u | sed 's|^|./|'))

unit: ## tests that need no API server, with the race detector where goroutines meet; where that leaves something out, also without it
	$(NICE) env $(RACE) -timeout 30m $(TWICE) $(filter-out $(TWICE),$(CONCURRENT))
	$(NICE) $(GO) test -timeout 30m $(TWICE) $$($(GO) list -f '.{{slice .ImportPath (len .Module.Path)}}' ./... | grep -vxF "$$(printf '%s\n' $(CONCURRENT))")

e2e: $(BIN)/berth $(BIN)/kubectl $(BIN)/devcluster $(BIN)/provisioner $(BIN)/driver $(BIN)/kube-scheduler ## integration tests against a real etcd, kube-apiserver and kube-controller-manager
	cd devcluster/provisioner && $(RACE) -count=1 -timeout 10m ./...
	cd devcluster/driver && $(RACE) -count=1 -timeout 10m ./...
	cd devcluster && $(GO) test -count=1 -timeout 10m ./internal/admission # without the race detector, which would build the kubelet and the scheduler again
	cd devcluster && DEVCLUSTER=$(abspath $(BIN)/devcluster) $(RACE) -count=1 -timeout 20m $$($(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | grep -v /internal/admission$$) # not ./...: that would build all of Kubernetes with the race detector
	BERTH_E2E_BIN=$(abspath $(BIN)) $(GO) test -count=1 -v -timeout 40m ./internal/proof/e2e/... # without it, too: what is tested are programs of their own, and its comparison measures a binder in this process

SEEDS ?= 1..500

# A seed takes 10 to 20 s of a core, and every one of them counts on a slow machine.
FAULTS_TIMEOUT = $(shell echo '$(SEEDS)' | awk -F '[.][.]' '{ print 10 + $$NF - $$1 + 1 "m" }')

simulate-faults: ## the loop under every fault of design/failures.md, by seed, with a table of what was tried; SEEDS=1..500
	$(GO) test ./internal/offline/simulate -run '^TestFaults(Of[A-Z][a-z]+)?$$' -count=1 -timeout $(FAULTS_TIMEOUT) -v -fault-seeds $(SEEDS)

RANDOM := internal/cluster/state internal/decide/engine internal/offline/simulate

random-tests: ## the tests of state, engine and simulation, those with random clusters with 300 seeds each; SLICE=1/4 for every fourth test
	$(GO) test $(RANDOM:%=./%) -count=1 -timeout 4h -seeds 300 $(if $(SLICE),-run "$$(git grep -hoE '^func (Test|Fuzz|Example)[A-Za-z0-9_]*' -- $(RANDOM) | sed 's/func //' | sort -u | tools/slice.sh $(SLICE) pattern)")

soak: ## a simulated month of a busy cluster of 1,000 nodes, in minutes: fails if memory, what is kept, or counted work per change grows; SOAK_FLAGS=--help
	@$(GO) run ./internal/proof/soak $(SOAK_FLAGS)

PACKAGES ?= $(addprefix ./internal/,cluster/state queue decide/engine decide/gang decide/engine/preempt decide/engine/rank commit kube cluster/ingest loop model/report offline/manifest cluster/devices decide/allocator answers/advice) ./app ./internal/decide/plugins/...
SAMPLE ?= 0
SEED ?= 1

mutate: ## put small faults into packages and list those that the packages' own tests miss; PACKAGES=./internal/model/report SAMPLE=40 SEED=1; SLICE=1/12 for every twelfth package; LIMIT=9m for as many as fit
	@$(GO) run ./internal/proof/mutate -sample $(SAMPLE) -seed $(SEED) $(if $(LIMIT),-for $(LIMIT) -slow 1m) $(if $(SLICE),$$($(GO) list $(PACKAGES) | tools/slice.sh $(SLICE)),$(PACKAGES))

# What the changes are since; without it, as in a clone of one commit, the last commits count.
MUTATE_SINCE ?= origin/main
MUTATE_FOR ?= 60s

mutate-changed: ## the same for a sample in the packages that have changed, for a minute, or until ten faults are tried if that takes longer; packages with slow tests are passed over; MUTATE_SINCE=origin/main MUTATE_FOR=60s
	@$(NICE) $(GO) run ./internal/proof/mutate -changed '$(MUTATE_SINCE)' -for $(MUTATE_FOR) -seed $$((0x$$(git rev-parse --short=7 HEAD))) $(PACKAGES)

BENCHED = $$(git grep -l '^func Benchmark' -- 'internal/*_test.go' | xargs -n 1 dirname | sort -u | sed 's|^|./|')

bench: ## Go benchmarks: one decision at 1,000 to 50,000 nodes, what must not become a cliff, and the plugins; SLICE=1/4 for every fourth
	$(GO) test -run '^$$' -bench $(if $(SLICE),"$$(git grep -hoE '^func Benchmark[A-Za-z0-9_]*' -- 'internal/*_test.go' | sed 's/func //' | sort -u | tools/slice.sh $(SLICE) pattern)",.) -benchmem -timeout 2h $(BENCHED)

bench-once: ## each benchmark once, small: they compile and run
	$(NICE) $(GO) test -run '^$$' -bench . -benchtime 1x -short -timeout 20m $(BENCHED)

# A number of inputs, because a time that ends while an input is tried is a failure now and then. An input of FuzzParse is a whole configuration, which takes some ten times as long as
# other inputs: it has a quarter of them, a minute or so. One of FuzzGiantPods is a pod of thousands of elements: it has a hundredth of them.
FUZZTIME ?= 200000x
FUZZ ?= Fuzz[A-Za-z0-9]*

# What go test -fuzz does, but that only Berth's own packages count which of their lines are reached: with the libraries', too, all of them are compiled once more, a hundredth of the inputs
# is tried in the same time, and the search follows what is new to a library instead of what is new to Berth.
FUZZED = -gcflags=all=-dwarf=false -gcflags='github.com/berth-scheduler/berth/...=-dwarf=false -d=libfuzzer'

fuzz: ## each fuzz target for a while; what breaks it is written to testdata/fuzz, to be checked in; FUZZTIME=200000x FUZZ=FuzzParse
	@git grep -qE '^func $(FUZZ)\(' -- '*_test.go' || { echo 'there is no fuzz target' >&2; exit 1; }
	@set -e; git grep -E '^func $(FUZZ)\(' -- '*_test.go' | sed -E 's|^(.*)/[^/]*:func (Fuzz[A-Za-z0-9]*).*|\1 \2|' | while read -r package target; do \
		inputs=$(FUZZTIME); case "$$target $$inputs" in "FuzzParse "*x) inputs=$$(($${inputs%x} / 4))x;; "FuzzGiantPods "*x) inputs=$$(($${inputs%x} / 100))x;; esac; \
		echo "fuzz $$package: $$target, $$inputs"; binary=$(abspath $(BIN))/fuzz/$$package.test; \
		$(NICE) $(GO) test -c $(FUZZED) -o "$$binary" "./$$package"; \
		(cd "$$package" && $(NICE) $(TIMED) "$$binary" -test.run "^$$target$$" -test.fuzz "^$$target$$" -test.fuzztime "$$inputs" -test.fuzzminimizetime 1000x -test.timeout 30m \
			-test.fuzzcachedir "$$($(GO) env GOCACHE)/fuzz/berth/$$package" </dev/null); \
	done

nightly: ## what takes hours: more seeds, inputs and faults than make test, all linters, benchmarks, comparisons; all of it runs, whatever fails; PART=faults for a part, PART=faults-3 for a slice
	@tools/nightly.sh run $(PART)

nightly-parts: ## list the parts of make nightly, and the tests of each beyond make test
	@tools/nightly.sh list

compare: $(BIN)/berth $(BIN)/devcluster $(BIN)/kube-scheduler $(if $(WORKLOADS)$(findstring OutsidePlugin,$(COMPARE_FLAGS)),plugged) ## pods/s, CPU and latency of Berth beside kube-scheduler and a binder that does not think; QUICK=1 for two minutes, COMPARE_FLAGS=--help; WORKLOADS=1/3 for every third workload
	@$(GO) run ./internal/proof/e2e/compare --bin $(BIN) $(if $(QUICK),--quick) $(COMPARE_FLAGS) $(if $(WORKLOADS),--workloads "$$($(GO) run ./internal/proof/e2e/compare --list | awk '$$1 == "workload" && !/not run by berth/ { print $$2 }' | tools/slice.sh $(WORKLOADS) | paste -sd ,)")

reports: $(BIN)/berth $(BIN)/devcluster $(BIN)/kube-scheduler ## reports of operators, played with Berth and kube-scheduler; fails if Berth is wrong or docs/reports.md is; REPORTS_FLAGS=-write, or -help
	@$(GO) run ./internal/proof/e2e/reports -bin $(BIN) $(REPORTS_FLAGS)

kubectl-size: $(BIN)/berth $(BIN)/devcluster ## time and memory of kubectl-berth's commands in a cluster of 5,000 nodes and 50,000 pods; VERBS_FLAGS=-help
	@$(GO) run ./internal/proof/e2e/verbs -bin $(BIN) $(VERBS_FLAGS)

shadow-demo: $(BIN)/berth $(BIN)/devcluster $(BIN)/provisioner $(BIN)/kube-scheduler ## the shadow beside kube-scheduler, with Deployments, priorities, volumes and churn: 10,000 bindings; SHADOW_FLAGS=-help
	@$(GO) run ./internal/proof/e2e/shadowdemo -bin $(BIN) $(SHADOW_FLAGS)

# kube-scheduler of another release runs in a program of its own, which needs a newer Go.
OTHER_KUBERNETES := $(if $(filter 1.38,$(KUBERNETES)),$(BIN)/parity138)

parity: $(BIN)/parity $(OTHER_KUBERNETES) ## verdicts, scores and messages of Berth beside kube-scheduler's own plugins; PARITY_FLAGS='-shapes ... -seed N', or -help; KUBERNETES=1.38 for both of 1.38
	@$(BIN)/parity $(OTHER_KUBERNETES:%=-kube-scheduler %) $(PARITY_FLAGS)

parity138-rules: $(BIN)/parity138 ## each rule of docs/versions.md on both releases of kube-scheduler: its seeds differ without the rule, and not with it; WRITE=1 stores the answers of 1.38 for make test
	cd parity && PARITY138=$(abspath $(BIN)/parity138) $(GO) test -count=1 -run '^(TestRules|TestStore)' . $(if $(WRITE),-write)

lint: lint-product lint-large ## gofmt, the prose gate, the table of numbers and golangci-lint (.golangci.yml), which vets, in each module; where whole programs are imported, go vet and a part of its linters, or all with LINTERS=

# staticcheck computes what it knows of a function for all that a module imports, which takes half a minute for Helm or Prometheus and minutes for Kubernetes; these linters look at the module alone.
LINTERS ?= --enable-only errcheck,errorlint,ineffassign,misspell,revive,unused
LINT    := $(NICE) $(TIMED) $(abspath $(BIN)/golangci-lint) run --config $(abspath .golangci.yml) --allow-parallel-runners

# In one Go workspace, because golangci-lint keeps what it knows of a library for one go.mod, and would compute it again in each module. Their libraries have the same versions without it, but for two of the release's.
lint-product: $(BIN)/golangci-lint
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "gofmt needed: $$unformatted" >&2; exit 1; fi
	@rm -f $(BIN)/lint.work $(BIN)/lint.work.sum; export GOWORK=$(abspath $(BIN)/lint.work); $(GO) work init $(MODULES) && echo 'lint $(MODULES)' && $(LINT) $(MODULES:%=./%/...)

	@cd tools/times && $(GO) test ./...
	@cd tools/prose && $(GO) test ./... && $(GO) build -o $(abspath $(BIN))/prose . && cd ../.. && $(BIN)/prose
	@cd tools/numbers && $(GO) test ./... && $(GO) build -o $(abspath $(BIN))/numbers . && cd ../.. && $(BIN)/numbers

prose-update: ## lower the limits of the prose gate (tools/prose/limits.txt) to the present numbers
	cd tools/prose && $(GO) build -o $(abspath $(BIN))/prose .
	$(BIN)/prose -update

lint-large: $(BIN)/golangci-lint
	@set -e; for module in $(LARGE_MODULES); do echo "lint $$module"; (cd $$module && $(NICE) $(GO) vet ./... && $(LINT) $(LINTERS) ./...); done
	@echo 'lint parity/moved'; cd parity/moved && $(GO) run ./move $(abspath $(BIN))/moved && export GOFLAGS="$$GOFLAGS -overlay=$(abspath $(BIN))/moved/overlay.json" && $(NICE) $(GO) vet ./... && $(LINT) $(LINTERS) ./...

beside: $(BIN)/berth $(BIN)/devcluster $(BIN)/kube-scheduler $(BIN)/moved-kube-scheduler $(BIN)/moved-berth ## tests that hold Berth against kube-scheduler: a slice of make parity, the surface, plugins from outside
	cd parity && BERTH_E2E_BIN=$(abspath $(BIN)) $(GO) test -count=1 -timeout 30m ./...
	cd framework/compat && $(GO) test -count=1 -timeout 10m ./...

gang-bench: $(BIN)/devcluster $(BIN)/moved-kube-scheduler $(BIN)/moved-berth ## seconds until a gang of 64 by Coscheduling is bound among 1,000 other pods, under kube-scheduler and Berth in turn; COUNT=5
	cd parity && BERTH_E2E_BIN=$(abspath $(BIN)) $(GO) test ./plugged -run '^$$' -bench Gang -benchtime $(or $(COUNT),5)x -timeout 30m

# Each has the libraries of this repository, so that little but its own code is compiled.
NEIGHBOURS := descheduler kueue karpenter
NEIGHBOUR  ?= $(NEIGHBOURS)

neighbours: $(BIN)/berth $(BIN)/devcluster $(BIN)/kube-scheduler $(NEIGHBOUR:%=$(BIN)/%) ## programs that work beside a scheduler, with kube-scheduler and with Berth: the same end states; NEIGHBOUR=descheduler for one
	cd neighbours && BERTH_E2E_BIN=$(abspath $(BIN)) $(GO) test -count=1 -v -timeout 60m -run '^TestNeighbours$$/^('"$$(echo $(NEIGHBOUR) | tr ' ' '|')"')$$' .

monitoring: ## dashboards and rules for Prometheus: every expression against what a scheduler serves
	cd deploy/monitoring && $(NICE) $(GO) test -timeout 10m ./...

examples: $(BIN)/devcluster ## tests of the example plugins, also against a real API server
	cd examples/sample-plugin && BERTH_E2E_BIN=$(abspath $(BIN)) $(GO) test -count=1 -timeout 20m ./...
	cd examples/gang-plugin && BERTH_E2E_BIN=$(abspath $(BIN)) $(GO) test -count=1 -timeout 10m ./...

examples-demo: $(BIN)/devcluster ## run a scheduler with the sample plugin on a small cluster and show what it does
	@cd examples/sample-plugin && $(GO) run ./demo

clean: ## remove what was built
	rm -rf $(BIN)

$(BIN)/berth: export GOGC := $(TEST_GOGC)
$(BIN)/berth: $(shell find app cmd internal -name '*.go' 2>/dev/null) go.mod go.sum
	$(BUILD) -o $@ ./cmd/berth

$(BIN)/golangci-lint: tools/go.mod tools/go.sum
	@echo 'building the linter (a minute or two on 2 cores the first time)' >&2
	cd tools && $(GO) build -ldflags='-s -w' -o $(abspath $@) github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(BIN)/devcluster: $(shell find devcluster -name '*.go' -not -path 'devcluster/provisioner/*' -not -path 'devcluster/driver/*' 2>/dev/null) devcluster/go.mod devcluster/go.sum
	@echo 'building the development cluster: etcd, kube-apiserver, kube-controller-manager (6-7 minutes on 2 cores the first time)' >&2
	cd devcluster && $(GO) build -ldflags='-s -w -X $(K8S).gitVersion=$(CLUSTER_VERSION)' -o $(abspath $@) .

$(BIN)/provisioner: $(shell find devcluster/provisioner -name '*.go' 2>/dev/null) devcluster/provisioner/go.mod devcluster/provisioner/go.sum
	cd devcluster/provisioner && $(GO) build -ldflags='-s -w' -o $(abspath $@) .

$(BIN)/driver: $(shell find devcluster/driver -name '*.go' 2>/dev/null) devcluster/driver/go.mod devcluster/driver/go.sum
	cd devcluster/driver && $(GO) build -ldflags='-s -w' -o $(abspath $@) .

$(BIN)/kubectl: devcluster/go.mod devcluster/go.sum
	cd devcluster && $(GO) build -ldflags='-s -w' -o $(abspath $@) k8s.io/kubernetes/cmd/kubectl # a tool of that module, of its version of Kubernetes

$(BIN)/kube-scheduler: parity/go.mod parity/go.sum
	@echo 'building kube-scheduler, what Berth is compared with (3 minutes on 2 cores the first time)' >&2
	cd parity && $(GO) build -ldflags='-s -w' -o $(abspath $@) k8s.io/kubernetes/cmd/kube-scheduler # built like devcluster, so that both share what is compiled

plugged: $(BIN)/plugged-kube-scheduler $(BIN)/plugged-berth # both schedulers with the same plugins from outside

$(BIN)/plugged-kube-scheduler: $(shell find parity/plugged -name '*.go' 2>/dev/null) parity/go.mod parity/go.sum
	cd parity && $(GO) build -ldflags='-s -w' -o $(abspath $@) ./plugged/kube-scheduler

$(BIN)/plugged-berth: $(shell find app framework internal parity/plugged -name '*.go' 2>/dev/null) go.mod go.sum parity/go.mod parity/go.sum
	cd parity && $(GO) build -ldflags='-s -w' -o $(abspath $@) ./plugged/berth

MOVED := $(GO) run ./move $(abspath $(BIN))/moved && $(GO) build -modfile=$(abspath $(BIN))/moved/go.mod -ldflags='-s -w' -o # a copy of scheduler-plugins for today's Kubernetes, which then is built

$(BIN)/moved-kube-scheduler: $(shell find parity/plugged parity/moved -name '*.go' 2>/dev/null) parity/moved/go.mod parity/moved/go.sum
	cd parity/moved && $(MOVED) $(abspath $@) ./kube-scheduler

$(BIN)/moved-berth: $(shell find app framework internal parity/plugged parity/moved -name '*.go' 2>/dev/null) go.mod go.sum framework/compat/go.mod parity/moved/go.mod parity/moved/go.sum | $(BIN)/moved-kube-scheduler # not at once: both write the copy
	cd parity/moved && $(MOVED) $(abspath $@) ./berth

$(BIN)/descheduler: neighbours/descheduler/go.mod neighbours/descheduler/go.sum
	cd neighbours/descheduler && $(GO) build -ldflags='-s -w' -o $(abspath $@) sigs.k8s.io/descheduler/cmd/descheduler

# Kueue imports an API whose generated schema has a type that Kubernetes 1.37 has not, and an alpha feature that compiles in another kube-scheduler. Neither is used.
$(BIN)/kueue: neighbours/copy.sh neighbours/kueue/go.mod neighbours/kueue/go.sum
	GO='$(GO)' neighbours/copy.sh kueue github.com/kubeflow/trainer/v2 $(abspath $(BIN))/neighbours/trainer pkg/apis/trainer/v1alpha1/zz_generated.openapi.go
	cd neighbours/kueue && $(GO) build -tags=exclude_scheduler_library -ldflags='-s -w' -o $(abspath $@) sigs.k8s.io/kueue/cmd/kueue

# Karpenter's go.mod asks for a newer patch release of Go, which would compile everything again.
$(BIN)/karpenter: neighbours/copy.sh neighbours/karpenter/go.mod neighbours/karpenter/go.sum
	GO='$(GO)' neighbours/copy.sh karpenter sigs.k8s.io/karpenter $(abspath $(BIN))/neighbours/karpenter
	cd neighbours/karpenter && $(GO) build -ldflags='-s -w' -o $(abspath $@) sigs.k8s.io/karpenter/kwok

$(BIN)/parity138: $(shell find parity -name '*.go' 2>/dev/null) parity/go.mod parity/release138/go.mod parity/release138/go.sum
	@mkdir -p $(BIN)
	cd parity/release138 && GOTOOLCHAIN=go1.27.3 $(GO) build -tags=release138 -ldflags='-s -w' -o $(abspath $@) .

$(BIN)/parity: $(shell find app internal parity -name '*.go' 2>/dev/null) go.mod go.sum parity/go.mod parity/go.sum
	@echo 'building the comparison with kube-scheduler (2 minutes on 2 cores the first time)' >&2
	cd parity && $(GO) build -ldflags='-s -w' -o $(abspath $@) .
