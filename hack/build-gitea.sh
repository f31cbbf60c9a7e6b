#!/bin/sh
# Builds Gitea, a code host for tests, from its Go module at a pinned version,
# into .bin/gitea: the program and the files that it reads. Does
# nothing if that version is there already.
set -eu

version=v1.26.0
module=code.gitea.io/gitea

cd "$(dirname "$0")/.."
out=$PWD/.bin/gitea
stamp=$out/built

if [ -x "$out/gitea" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$version $(go env GOARCH)" ]; then
	echo "Gitea $version is built: .bin/gitea"
	exit 0
fi
for program in go gcc git; do
	command -v "$program" >/dev/null || { echo "build-gitea: $program is missing: hack/deps.sh build" >&2; exit 1; }
done

mkdir -p .bin
work=$(mktemp -d)
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT INT TERM

# The download runs outside of our module, so that it cannot touch our go.sum.
echo "Gitea $version: fetching the module"
dir=$(cd "$work" && go mod download -json "$module@$version" | sed -n 's/^[[:space:]]*"Dir": "\(.*\)",*$/\1/p')
[ -n "$dir" ] || { echo "build-gitea: go mod download gave no directory for $module@$version" >&2; exit 1; }

# Its replace directives apply only to the main module, and the module cache is
# read-only, so build in a copy.
cp -R "$dir" "$work/src"
chmod -R u+w "$work/src"

echo "Gitea $version: building (about seven minutes of CPU time)"
(cd "$work/src" && CGO_ENABLED=1 GOFLAGS=-mod=mod GOWORK=off go build -trimpath -tags 'sqlite sqlite_unlock_notify' \
	-ldflags "-s -w -X main.Version=${version#v}" -o "$work/gitea" .)

"$work/gitea" --version >/dev/null
rm -rf "$out"
mkdir -p "$out"
mv "$work/gitea" "$out/gitea"
cp -R "$work/src/options" "$work/src/templates" "$work/src/public" "$out/"
echo "$version $(go env GOARCH)" >"$stamp"
echo "Gitea $version: built .bin/gitea/gitea, $(wc -c <"$out/gitea") bytes"
