#!/bin/sh
# Builds Gitea, a code host for tests, from its Go module at a pinned version,
# into .bin/gitea: the program and the files that it reads. Does
# nothing if that version is there already.
set -eu

version=v1.26.0
hash=h1:fJP9dqLbzKrKWUVnCVTfVersZdVDuyJQLEDzCAOmKKA=

cd "$(dirname "$0")/.."
. hack/lib.sh
out=.bin/gitea
begin Gitea $out/built $out/gitea
require build gcc git

echo "Gitea $version: fetching the module"
fetch_module code.gitea.io/gitea "$version" "$hash"
echo "Gitea $version: building (about seven minutes of CPU time)"
go_build 1 -tags 'sqlite sqlite_unlock_notify' -ldflags "-s -w -X main.Version=${version#v}" -o "$work/gitea" .

"$work/gitea" --version >/dev/null
rm -rf $out
mkdir -p $out
mv "$work/gitea" $out/gitea
cp -R "$work/src/options" "$work/src/templates" "$work/src/public" $out/
finish
