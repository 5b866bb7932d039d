# Everything a developer runs. `make help` lists it.

.DEFAULT_GOAL := help
.PHONY: help build demo test unit e2e bench bench-e2e lint clean

BIN := bin
GO  ?= go
# The race detector needs a C compiler; everything shipped is built without one.
BUILD := CGO_ENABLED=0 $(GO) build -trimpath -ldflags='-s -w'

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

build: $(BIN)/berth ## build the scheduler into bin/berth

demo: $(BIN)/berth $(BIN)/devcluster ## start a cluster of 500 nodes, schedule an example with Berth, report, stay up on a terminal
	@$(GO) run ./internal/e2e/demo -bin $(BIN) -example examples/demo.yaml

test: lint unit e2e ## all tests: lint, unit and property tests, and integration with a real API server

unit: ## tests that need no API server, with the race detector
	$(GO) test -race ./...

e2e: $(BIN)/berth $(BIN)/devcluster ## integration tests against a real etcd, kube-apiserver and kube-controller-manager
	cd devcluster && DEVCLUSTER=$(abspath $(BIN)/devcluster) $(GO) test -race -count=1 $$($(GO) list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...) # not ./...: that would build all of Kubernetes with the race detector
	BERTH_E2E_BIN=$(abspath $(BIN)) $(GO) test -race -count=1 -v -timeout 20m ./internal/e2e/...

bench: ## Go benchmarks: one decision at 1,000, 5,000 and 20,000 nodes, and the plugins
	$(GO) test -run '^$$' -bench . -benchmem ./internal/...

bench-e2e: $(BIN)/berth $(BIN)/devcluster ## pods/s and CPU of Berth beside a binder that does not think; BENCH_FLAGS='-shapes ... -running N'
	@$(GO) run ./internal/e2e/bench -bin $(BIN) $(BENCH_FLAGS)

lint: ## gofmt and go vet; golangci-lint too where it is installed
	@unformatted=$$(gofmt -l $$(git ls-files '*.go')); if [ -n "$$unformatted" ]; then echo "gofmt needed: $$unformatted" >&2; exit 1; fi
	$(GO) vet ./...
	@if command -v golangci-lint >/dev/null; then golangci-lint run; fi

clean: ## remove what was built
	rm -rf $(BIN)

$(BIN)/berth: $(shell find app cmd internal -name '*.go' 2>/dev/null) go.mod go.sum
	$(BUILD) -o $@ ./cmd/berth

$(BIN)/devcluster: $(shell find devcluster -name '*.go' 2>/dev/null) devcluster/go.mod devcluster/go.sum
	@echo 'building the development cluster: etcd, kube-apiserver, kube-controller-manager (6-7 minutes on 2 cores the first time)' >&2
	cd devcluster && $(GO) build -ldflags='-s -w' -o $(abspath $@) .
