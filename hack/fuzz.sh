#!/bin/sh
# Run fuzz targets for FUZZTIME each (30s unless it is set). An argument is a pattern
# of packages, all of them without one. What breaks a target is kept in the testdata
# folder of its package: commit it, so that make test tries it ever after.
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
