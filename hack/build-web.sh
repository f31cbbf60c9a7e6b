#!/bin/sh
# Builds the dashboard that bin/aloft carries, from web/, into
# cmd/aloft/embedded/web. Does nothing if its sources have not changed.
# Without Node the server is built without the dashboard, and its pages say so.
set -eu

cd "$(dirname "$0")/.."
out=cmd/aloft/embedded/web
stamp=$out/built

# Includes files that are not committed yet.
made_of=$(git ls-files -co --exclude-standard web docs/reference/openapi.yaml hack/build-web.sh | sort | while read -r f; do
	[ ! -f "$f" ] || sha256sum "$f"
done | sha256sum | cut -c1-64)
if [ -f "$out/index.html.gz" ] && [ "$(cat "$stamp" 2>/dev/null)" = "$made_of" ]; then
	exit 0
fi
PATH=$PWD/.bin/node/bin:$PATH
if ! hack/node.sh; then
	echo "build-web: the dashboard is LEFT OUT: it needs Node 20.19 or newer with npm" >&2
	exit 0
fi
echo "building the dashboard"
if [ -z "$(find web/node_modules/.package-lock.json -newer web/package-lock.json 2>/dev/null)" ]; then
	npm ci --prefix web --no-audit --no-fund --loglevel=error
fi
npm run --silent --prefix web types >/dev/null
npm run --silent --prefix web build
printf '%s\n' "$made_of" >"$stamp"
