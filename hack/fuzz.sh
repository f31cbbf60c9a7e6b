#!/bin/sh
# fuzz.sh [PATTERN]: runs the fuzz targets of packages that match, by default all,
# for FUZZTIME each (30s by default). An input that breaks a target is saved in the
# testdata folder of its package: commit it, so that make test runs it from then on.
set -eu
failed=
for dir in $(git grep -l '^func Fuzz' -- '*_test.go' | xargs -n1 dirname | sort -u); do
	case "$dir" in *${1:-}*) ;; *) continue ;; esac
	for target in $(grep -ho '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | cut -d' ' -f2 | sort); do
		echo "== $dir $target"
		go test "./$dir" -run '^$' -fuzz "^$target\$" -fuzztime "${FUZZTIME:-30s}" || failed="$failed $dir:$target"
	done
done
[ -z "$failed" ] || { echo "failed:$failed"; exit 1; }
