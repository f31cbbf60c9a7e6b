# shellcheck shell=sh disable=SC2154 # the scripts set version
# Functions for the scripts that build programs into .bin at pinned versions. These
# source this file in the repository's top folder.

# require PURPOSE PROGRAM... fails if a program is missing. hack/deps.sh PURPOSE
# installs it.
require() {
	purpose=$1
	shift
	for program in "$@"; do
		command -v "$program" >/dev/null || {
			echo "$(basename "$0" .sh): $program is missing: hack/deps.sh $purpose" >&2
			exit 1
		}
	done
}

# begin NAME STAMP PROGRAM... ends the script if the programs of $version are built
# already, for the architecture GOARCH. The file STAMP tells.
begin() {
	command -v go >/dev/null || {
		echo "go is missing: see https://go.dev/doc/install" >&2
		exit 1
	}
	name=$1 stamp=$2
	shift 2
	programs=$* arch=$(go env GOARCH)
	[ "$(cat "$stamp" 2>/dev/null)" = "$version $arch" ] || return 0
	for program in "$@"; do
		[ -x "$program" ] || return 0
	done
	echo "$name $version is built: $programs"
	exit 0
}

# finish records that the programs are built.
finish() {
	echo "$version $arch" >"$stamp"
	echo "$name $version: built $programs"
}

# fetch_module MODULE VERSION HASH puts the module's source into $work/src, a
# temporary folder that is removed at exit. It fails if the source does not have
# the hash, which is that of go.sum.
fetch_module() {
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
