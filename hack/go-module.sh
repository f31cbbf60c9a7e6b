# Fetches Go modules for the scripts that build programs from them, which source
# this file in the repository's top folder.

# fetch_module MODULE VERSION HASH puts the module's source into $work/src, a
# temporary folder that is removed at exit. It fails if the source does not have
# the hash, which is that of go.sum.
fetch_module() {
	command -v go >/dev/null || {
		echo "go is missing: see https://go.dev/doc/install" >&2
		exit 1
	}
	mkdir -p .bin
	work=$(mktemp -d)
	trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT INT TERM

	# Outside of our module, so that the download cannot touch our go.sum.
	(cd "$work" && go mod download -json "$1@$2" >module.json) || {
		cat "$work/module.json" >&2
		exit 1
	}
	sum=$(module_field Sum)
	[ "$sum" = "$3" ] || {
		echo "$1@$2 has the hash $sum, but $3 is expected: it is not the module that was reviewed" >&2
		exit 1
	}
	# A copy, because replace directives apply only to the main module, and the
	# module cache is read-only.
	cp -R "$(module_field Dir)" "$work/src"
	chmod -R u+w "$work/src"
}

module_field() { sed -n 's/^[[:space:]]*"'"$1"'": "\(.*\)",*$/\1/p' "$work/module.json"; }

# go_build CGO ARGS runs go build in $work/src, with cgo if CGO is 1. The
# dependencies are those whose hashes are in the module's own go.sum.
go_build() {
	cgo=$1
	shift
	(cd "$work/src" && CGO_ENABLED=$cgo GOFLAGS=-mod=readonly GOWORK=off go build -trimpath "$@")
}
