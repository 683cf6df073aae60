# SPDX-License-Identifier: Apache-2.0
.DEFAULT_GOAL := help
.PHONY: help demo test build format tidy guards portable man fuzz clean
MAKEFLAGS += --no-print-directory

FUZZ_SECONDS ?= 60

help: ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  make \1@\2/p' $(MAKEFILE_LIST) | awk -F@ '{ printf "%-16s %s\n", $$1, $$2 }'

demo: ## install what is missing, build, and watch a small model learn a handbook on this machine
	@scripts/setup run
	@scripts/build native
	@scripts/demo build/native/bin/sluice

test: ## install what is missing, build, run every test
	@scripts/setup test
	@scripts/build release
	@scripts/run_tests release

build: ## build build/release/bin/sluice and the tests
	@scripts/build release

format: ## format the C++ sources in place
	@tools/format

tidy: build ## run clang-tidy
	@tools/run_tidy

guards: build ## run every guard but the tests, as .ci/run does
	@scripts/guards

portable: ## build build/portable/dist, a folder that runs on other machines
	@scripts/setup run
	@scripts/build portable --target dist

man: ## write the manual pages of all verbs to build/man
	@scripts/build release --target man

fuzz: ## run each fuzzer for FUZZ_SECONDS (60)
	@scripts/fuzz $(FUZZ_SECONDS)

clean: ## remove build/
	@rm -rf build
