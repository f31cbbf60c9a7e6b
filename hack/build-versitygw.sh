#!/bin/sh
# Builds versitygw, an S3 server for tests, from its Go module at a pinned
# version, into .bin/versitygw. Does nothing if that version is there already.
set -eu

version=v1.8.0
hash=h1:au+wI+aybno/STsQiSm35Uu6Q6iK5MWReQxgO6SEMFc=

cd "$(dirname "$0")/.."
. hack/lib.sh
begin versitygw .bin/versitygw.built .bin/versitygw

echo "versitygw $version: fetching and building (about a minute of CPU time)"
fetch_module github.com/versity/versitygw "$version" "$hash"
go_build 0 -ldflags "-s -w" -o "$work/versitygw" ./cmd/versitygw

"$work/versitygw" --version >/dev/null
mv -f "$work/versitygw" .bin/versitygw
finish
