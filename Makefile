.DEFAULT_GOAL := help
SHELL := /bin/sh

VERSION  := $(shell git describe --tags --always --dirty 2>/dev/null || echo devel)
LDFLAGS  := -s -w -X main.version=$(VERSION)
GOBUILD  := CGO_ENABLED=0 go build -trimpath -ldflags '$(LDFLAGS)'
GUEST    := pod-daemon exec-daemon sandbox
EMBEDDED := cmd/aloft/embedded
LINT     := v2.5.0
GOPLS    := v0.21.1
LIGHTHOUSE := 12.8.2
# Node from npm, used if the system's is too old for the dashboard.
export PATH := $(CURDIR)/.bin/node/bin:$(PATH)
# Machines need root: sudo runs the one command for everybody else.
SUDO     := $(shell [ "$$(id -u)" = 0 ] || echo "sudo -E env PATH=$(PATH)")

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: deps .bin/runc ## build bin/aloft and the machine binaries
	@mkdir -p bin $(EMBEDDED)
	@[ -e bin/aloft ] || echo "the first build compiles all dependencies: it takes minutes and 3 GB of memory"
	@for b in $(GUEST); do echo "building bin/$$b"; $(GOBUILD) -o bin/$$b ./cmd/$$b || exit 1; done
	@for b in $(GUEST:%=bin/%) .bin/runc; do \
		e=$(EMBEDDED)/$$(basename $$b); rm -f $$e; \
		gzip -dc $$e.gz 2>/dev/null | cmp -s - $$b || gzip -9nc $$b > $$e.gz; done
	@hack/build-web.sh
	@echo "building bin/aloft"
	@$(GOBUILD) -o bin/aloft ./cmd/aloft

web: ## build the dashboard for embedding in bin/aloft
	@mkdir -p $(EMBEDDED)
	@hack/build-web.sh

web-test: web/node_modules ## test the dashboard: types, units, accessibility, size
	@hack/deps.sh browser
	@npm run --silent --prefix web types >/dev/null
	@npm test --silent --prefix web

web-demo: web/node_modules ## show the dashboard with sample data, without a server
	@npm run --silent --prefix web types >/dev/null
	@npm run --silent --prefix web demo

web-shots: web/node_modules ## take a screenshot of every view of the dashboard (VIEWS="agents spawn" SIZES="phone wall-dark" select some)
	@hack/deps.sh browser
	@npm run --silent --prefix web types >/dev/null
	@npm run --silent --prefix web shots

web-lighthouse: build web/node_modules .bin/lighthouse/node_modules ## measure the dashboard with Lighthouse, as a phone and as a desktop (RUNS=3 takes the median of three)
	@hack/deps.sh browser
	@$(SUDO) npm run --silent --prefix web lighthouse

release: build ## build the last commit's packages, tarballs and checksums into dist/ (ARCHS="amd64 arm64")
	@hack/deps.sh release
	@hack/release.sh

demo: build ## run one agent on a sample repository, from prompt to pushed branch
	@$(SUDO) bin/aloft demo

test: deps-test hack/node_modules build web-test .bin/runsc .bin/gopls ## install what tests need, run all tests and count them
	@# The longest packages first, so that the others run beside them.
	@$(SUDO) env TEST_NEEDS=all go run ./hack/testcount ./test/e2e ./internal/control/machine/container ./...

quick: ## run the tests that need no machine, browser or large program (about 2 minutes)
	@go run ./hack/testcount $$(go list ./... | grep -v -x -F -f hack/slow-packages.txt)

ci: ## run the tests, the linter and the check of generated files, as CI does
	@# Tests often wait. The linter uses only the time that they leave.
	@mkdir -p .bin; nice -n 19 $(MAKE) --no-print-directory lint >.bin/lint.log 2>&1 & lint=$$!; \
	$(MAKE) --no-print-directory test || failed=1; \
	wait $$lint || failed=1; echo "The linter:"; cat .bin/lint.log; \
	$(MAKE) --no-print-directory generated || failed=1; exit $${failed:-0}

check: fmt ci ## format, then run all that must pass before a merge

generated: generate ## fail if make generate changes a file
	@git diff --exit-code

fmt: ## format Go and protobuf
	@gofmt -l -w $$(git ls-files '*.go')
	@[ ! -x hack/node_modules/.bin/buf ] || hack/node_modules/.bin/buf format -w

lint: .bin/golangci-lint ## run the linters
	@.bin/golangci-lint run ./...
	@[ ! -x hack/node_modules/.bin/buf ] || hack/node_modules/.bin/buf lint

generate: hack/node_modules ## rewrite generated code and documentation
	@GOBIN=$(CURDIR)/.bin go install tool
	@hack/node_modules/.bin/buf generate
	@hack/node_modules/.bin/buf build -o - | go run ./hack/catalogue > internal/tool/catalogue.json.new
	@mv internal/tool/catalogue.json.new internal/tool/catalogue.json
	@go test -count=1 . ./internal/agent ./internal/environment ./internal/control/api ./cmd/aloft ./cmd/exec-daemon ./cmd/pod-daemon ./hack/catalogue -run 'Diagram|Reference|Help|Schema|Guide|DescriptionFile' -skip RunningDaemons -update >/dev/null

race: build deps-test hack/node_modules .bin/runsc .bin/gopls ## run all Go tests but test/e2e under the race detector (needs a C compiler; an hour)
	@$(SUDO) env TEST_NEEDS=all CGO_ENABLED=1 go run ./hack/testcount -race -timeout=60m ./cmd/... ./internal/...

comments: ## print a random sample of 300 comments for a reader to judge (SEED=1)
	@go run ./hack/comments -n 300 -seed $(or $(SEED),1)

fuzz: ## fuzz the parsers, each for FUZZTIME (PACKAGE=mux selects packages)
	@hack/fuzz.sh $(PACKAGE)

soak: build .bin/runsc ## run the abuse tests longer and harder than make test
	@$(SUDO) env TEST_NEEDS=all ALOFT_TEST_SOAK=1 go test -count=1 -v -timeout=60m -run '^Test(Abuse|ExecDaemonIsKilled)' ./test/e2e
	@$(SUDO) env TEST_NEEDS=all ALOFT_TEST_SOAK=1 go test -count=1 -v -timeout=60m -run '^TestHistories$$' ./internal/control/layer
	@env ALOFT_TEST_SOAK=1 go test -count=1 -v -timeout=60m -run '^Test(ManyAtOnce|TracedLines)' ./internal/guest/hook ./internal/policy/shell
	@$(SUDO) env TEST_NEEDS=all ALOFT_TEST_SOAK=1 go test -count=1 -v -timeout=60m -run '^Test(ManyAtOnce|EscapesInside)' ./cmd/sandbox ./internal/control/machine/container

engines: deps-test build .bin/runc .bin/buildctl .bin/versitygw ## build Dockerfiles with every engine, build images/debian, and move snapshots through a real S3 server; not in make test
	@hack/deps.sh engines
	@$(SUDO) env TEST_NEEDS=all go test -tags engines -count=1 -v ./internal/control/dockerfile/...
	@$(SUDO) env TEST_NEEDS=all PATH="$(CURDIR)/.bin:$$PATH" go test -tags engines -count=1 -v -timeout=60m -run '^TestReferenceImage$$' ./test/e2e
	@$(SUDO) env TEST_NEEDS=all go test -tags engines -count=1 -v -run '^TestSnapshotsMoveByS3$$' ./cmd/aloft

editor: .bin/code-server ## connect to a machine with a real editor server; not in make test
	@TEST_NEEDS=all go test -tags editor -count=1 -v -run '^TestCodeServer$$' ./cmd/exec-daemon

forges: build .bin/gitea/built web/node_modules ## test pull requests and a first run against a real Gitea; not in make test
	@hack/deps.sh browser
	@TEST_NEEDS=all go test -tags forges -count=1 -v -run '^TestRealGitea$$' ./internal/control/forge/gitea
	@$(SUDO) npm run --silent --prefix web journey

vm: build ## run the demo in a virtual machine with Debian, systemd and cgroup v2 (RUN="aloft doctor" runs another command; VM_SUITE=trixie selects a release)
	@$(SUDO) hack/vm.sh run '$(or $(RUN),aloft doctor && aloft demo)'

bench: build web/node_modules ## measure each operation beside a yardstick and print a table
	@hack/deps.sh bench
	@$(SUDO) go run ./bench

hooks: ## install git hooks that check commits on this machine
	@git config core.hooksPath hack/hooks

deps:
	@hack/deps.sh build

deps-test:
	@hack/deps.sh build test

.bin/runc: hack/build-runc.sh
	@hack/build-runc.sh

.bin/buildctl: hack/build-buildkit.sh
	@hack/build-buildkit.sh

.bin/versitygw: hack/build-versitygw.sh
	@hack/build-versitygw.sh

.bin/code-server: hack/build-code-server.sh
	@hack/deps.sh editor
	@hack/build-code-server.sh
	@touch $@

.bin/gitea/built: hack/build-gitea.sh
	@hack/build-gitea.sh
	@touch $@

.bin/runsc: hack/build-runsc.sh
	@hack/build-runsc.sh

.bin/lighthouse/node_modules:
	@npm install --prefix .bin/lighthouse --no-save --no-audit --no-fund --loglevel=error lighthouse@$(LIGHTHOUSE)

.bin/gopls:
	@mkdir -p .bin
	GOBIN=$(CURDIR)/.bin go install golang.org/x/tools/gopls@$(GOPLS)

.bin/golangci-lint:
	@mkdir -p .bin
	GOBIN=$(CURDIR)/.bin go install github.com/golangci/golangci-lint/v2/cmd/golangci-lint@$(LINT)

hack/node_modules: hack/package-lock.json
	@npm install --prefix hack --no-save --no-audit --no-fund --loglevel=error
	@touch $@

web/node_modules: web/package-lock.json
	@hack/node.sh
	@npm ci --prefix web --no-audit --no-fund --loglevel=error
	@touch $@

.PHONY: help release comments fuzz quick ci generated build web web-test web-demo web-shots web-lighthouse demo test check fmt lint generate race soak engines editor forges vm bench hooks deps deps-test
