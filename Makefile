# Everything a developer runs. `make help` lists it.

.DEFAULT_GOAL := help
.PHONY: help build demo test mutate unit e2e beside monitoring simulate-faults soak bench compare parity lint clean examples examples-demo plugged

BIN := bin
GO  ?= go
# The Kubernetes release that Berth stands in for: what --version, /metrics and the feature gates go by.
K8S := k8s.io/component-base/version
VERSION := -X $(K8S).gitVersion=v1.37.1+berth -X $(K8S).gitMajor=1 -X $(K8S).gitMinor=37
# The race detector needs a C compiler; everything shipped is built without one.
BUILD := CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w $(VERSION)'

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: $(BIN)/berth ## build the scheduler into bin/berth

demo: $(BIN)/berth $(BIN)/devcluster ## start a cluster of 500 nodes, schedule an example with Berth, report, stay up on a terminal
	@$(GO) run ./internal/e2e/demo -bin $(BIN) -example examples/demo.yaml

test: lint unit monitoring e2e beside examples ## all tests: lint, unit and property tests, integration with a real API server, comparison with kube-scheduler, example plugins

unit: ## tests that need no API server, with the race detector; simulations also without it, with more seeds
	$(GO) test -race ./...
	$(GO) test ./internal/simulate

e2e: $(BIN)/berth $(BIN)/devcluster $(BIN)/provisioner ## integration tests against a real etcd, kube-apiserver and kube-controller-manager
	cd devcluster/provisioner && $(GO) test -race -count=1 ./...
	cd devcluster && $(GO) test -count=1 ./internal/admission # without the race detector, which would build the kubelet and the scheduler again
	cd devcluster && DEVCLUSTER=$(abspath $(BIN)/devcluster) $(GO) test -race -count=1 $$($(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./... | grep -v /internal/admission$$) # not ./...: that would build all of Kubernetes with the race detector
	BERTH_E2E_BIN=$(abspath $(BIN)) $(GO) test -race -count=1 -v -timeout 40m ./internal/e2e/...

SEEDS ?= 1..500

simulate-faults: ## the loop under every fault of docs/failures.md, by seed, with a table of what was tried; SEEDS=1..500
	$(GO) test ./internal/simulate -run '^TestFaults$$' -count=1 -timeout 60m -v -fault-seeds $(SEEDS)

soak: ## a simulated month of a busy cluster of 1,000 nodes, in minutes: fails if memory, what is kept, or counted work per change grows; SOAK_FLAGS=--help
	@$(GO) run ./internal/soak $(SOAK_FLAGS)

PACKAGES ?= ./internal/report ./internal/loop
SAMPLE ?= 0
SEED ?= 1

mutate: ## put small faults into packages and list those that the packages' own tests miss; PACKAGES=./internal/report SAMPLE=40 SEED=1
	@$(GO) run ./internal/mutate -sample $(SAMPLE) -seed $(SEED) $(PACKAGES)

bench: ## Go benchmarks: one decision at 1,000 to 50,000 nodes, what must not become a cliff, and the plugins
	$(GO) test -run '^$$' -bench . -benchmem ./internal/...

compare: $(BIN)/berth $(BIN)/devcluster $(BIN)/kube-scheduler $(if $(findstring OutsidePlugin,$(COMPARE_FLAGS)),plugged) ## pods/s, CPU and latency of Berth beside kube-scheduler and a binder that does not think; QUICK=1 for two minutes, COMPARE_FLAGS=--help
	@$(GO) run ./internal/e2e/compare --bin $(BIN) $(if $(QUICK),--quick) $(COMPARE_FLAGS)

parity: $(BIN)/parity ## verdicts, scores and messages of Berth beside kube-scheduler's own plugins; PARITY_FLAGS='-shapes ... -seed N', or -help
	@$(BIN)/parity $(PARITY_FLAGS)

lint: ## gofmt and go vet; golangci-lint too where it is installed
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "gofmt needed: $$unformatted" >&2; exit 1; fi
	$(GO) vet ./...
	@if command -v golangci-lint >/dev/null; then golangci-lint run; fi

beside: $(BIN)/berth $(BIN)/devcluster $(BIN)/kube-scheduler $(BIN)/moved-kube-scheduler $(BIN)/moved-berth ## tests that hold Berth against kube-scheduler: a slice of make parity, the surface, plugins from outside
	cd parity && BERTH_E2E_BIN=$(abspath $(BIN)) $(GO) test -count=1 -timeout 20m ./...

monitoring: ## dashboards and rules for Prometheus: every expression against what a scheduler serves
	cd deploy/monitoring && $(GO) test ./...

examples: $(BIN)/devcluster ## tests of the example plugins, also against a real API server
	cd examples/sample-plugin && $(GO) vet ./... && BERTH_E2E_BIN=$(abspath $(BIN)) $(GO) test -count=1 -timeout 10m ./...
	cd examples/gang-plugin && $(GO) vet ./... && BERTH_E2E_BIN=$(abspath $(BIN)) $(GO) test -count=1 -timeout 10m ./...

examples-demo: $(BIN)/devcluster ## run a scheduler with the sample plugin on a small cluster and show what it does
	@cd examples/sample-plugin && $(GO) run ./demo

clean: ## remove what was built
	rm -rf $(BIN)

$(BIN)/berth: $(shell find app cmd internal -name '*.go' 2>/dev/null) go.mod go.sum
	$(BUILD) -o $@ ./cmd/berth

$(BIN)/devcluster: $(shell find devcluster -name '*.go' -not -path 'devcluster/provisioner/*' 2>/dev/null) devcluster/go.mod devcluster/go.sum
	@echo 'building the development cluster: etcd, kube-apiserver, kube-controller-manager (6-7 minutes on 2 cores the first time)' >&2
	cd devcluster && $(GO) build -ldflags='-s -w' -o $(abspath $@) .

$(BIN)/provisioner: $(shell find devcluster/provisioner -name '*.go' 2>/dev/null) devcluster/provisioner/go.mod devcluster/provisioner/go.sum
	cd devcluster/provisioner && $(GO) build -ldflags='-s -w' -o $(abspath $@) .

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

$(BIN)/moved-berth: $(shell find app framework internal parity/plugged parity/moved -name '*.go' 2>/dev/null) go.mod go.sum parity/moved/go.mod parity/moved/go.sum
	cd parity/moved && $(MOVED) $(abspath $@) ./berth

$(BIN)/parity: $(shell find app internal parity -name '*.go' 2>/dev/null) go.mod go.sum parity/go.mod parity/go.sum
	@echo 'building the comparison with kube-scheduler (2 minutes on 2 cores the first time)' >&2
	cd parity && $(GO) build -ldflags='-s -w' -o $(abspath $@) .
