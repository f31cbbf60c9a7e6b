#!/bin/sh
# Installs code-server from npm at a pinned version, into .bin/code-server (310
# MB, some minutes). Does nothing if that version is there already.
#
# npm would run the install scripts of all dependencies, several of which download
# programs from elsewhere. None of them runs here: native modules are built from
# source, and ripgrep is the system's.
set -eu

version=4.100.3 # for Node 20
sha512=abf161d833b10913610bf5a21bfeac02148a9e3ed90024d505a79e67ead68e897fff41426e5fea835967e5e719f7d8d871fa8cc59640c9670df98048a340e0a4

cd "$(dirname "$0")/.."
. hack/lib.sh
out=$PWD/.bin/code-server
stamp=$out/installed

if [ "$(cat "$stamp" 2>/dev/null)" = "$version" ]; then
	echo "code-server $version is installed: .bin/code-server"
	exit 0
fi
require editor npm node g++ make python3 rg
case $(node --version) in
v20.*) ;;
*) echo "build-code-server: code-server $version needs Node 20, but this is $(node --version)" >&2; exit 1 ;;
esac

rm -rf "$out"
mkdir -p "$out/bin"
quiet="--no-audit --no-fund --loglevel=error"
app=$out/node_modules/code-server
echo "code-server $version: installing"
package=$out/code-server-$version.tgz
npm pack --silent --pack-destination "$out" "code-server@$version" >/dev/null
echo "$sha512  $package" | sha512sum --check --status || {
	echo "build-code-server: code-server $version does not have the expected hash: it is not the package that was reviewed" >&2
	exit 1
}
# shellcheck disable=SC2086 # a list of words; the package's shrinkwrap has the hashes of its dependencies
npm install --prefix "$out" --ignore-scripts $quiet "$package" >/dev/null
rm "$package"
for part in lib/vscode lib/vscode/extensions; do
	# shellcheck disable=SC2086
	(cd "$app/$part" && npm install --ignore-scripts --omit=dev $quiet >/dev/null)
done
echo "code-server $version: building native modules (about a minute of CPU time)"
# node-pty's last script needs a folder that exists only on Windows and fails, so check for the built files instead.
(cd "$out" && npm rebuild --build-from-source argon2 >build.log 2>&1) || :
(cd "$app/lib/vscode" && npm rebuild @vscode/spdlog native-watchdog node-pty >>"$out/build.log" 2>&1) || :
for built in "$out/node_modules/argon2/lib/binding/napi-v3/argon2.node" "$app/lib/vscode/node_modules/@vscode/spdlog/build/Release/spdlog.node" \
	"$app/lib/vscode/node_modules/native-watchdog/build/Release/watchdog.node" "$app/lib/vscode/node_modules/node-pty/build/Release/pty.node"; do
	[ -e "$built" ] || {
		tail -n 30 "$out/build.log" >&2
		echo "build-code-server: $built was not built; the log is .bin/code-server/build.log" >&2
		exit 1
	}
done
mkdir -p "$app/lib/vscode/node_modules/@vscode/ripgrep/bin"
ln -s "$(command -v rg)" "$app/lib/vscode/node_modules/@vscode/ripgrep/bin/rg"
ln -s node_modules "$app/lib/vscode/node_modules.asar"
printf '#!/bin/sh\nexec node %s/out/node/entry.js "$@"\n' "'$app'" >"$out/bin/code-server"
chmod +x "$out/bin/code-server"
"$out/bin/code-server" --version
echo "$version" >"$stamp"
echo "code-server $version: installed .bin/code-server"
