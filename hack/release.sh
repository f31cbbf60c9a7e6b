#!/bin/sh
# release.sh builds a release of the last commit into dist/: for each architecture in
# $ARCHS (default: this host's) a tarball, a Debian package, an RPM and an SBOM
# (CycloneDX); the script that installs the tarball; and SHA256SUMS. The same
# commit always gives the same files. Needs the dashboard that `make build` has
# built.
#
# For arm64 on an amd64 host: dpkg --add-architecture arm64, apt-get update,
# apt-get install gcc-aarch64-linux-gnu libseccomp-dev:arm64.
set -eu

nfpm=github.com/goreleaser/nfpm/v2/cmd/nfpm@v2.44.0
sbom=github.com/CycloneDX/cyclonedx-gomod/cmd/cyclonedx-gomod@v1.10.0

cd "$(dirname "$0")/.."
root=$PWD
ARCHS=${ARCHS:-$(go env GOHOSTARCH)}
[ -z "$(git status --porcelain)" ] || {
	echo "release: the working tree has changes; commit them, so that the release can be built again" >&2
	exit 1
}
[ -f cmd/aloft/embedded/web/index.html.gz ] || {
	echo "release: the dashboard is not built: run make build (needs Node)" >&2
	exit 1
}

# v1.2.3 at a tag; otherwise the last tag, the number of commits since, and the commit.
version=$(git describe --tags --match 'v[0-9]*' 2>/dev/null | sed 's/^v//; s/-/+/; s/-/./') || true
[ -n "$version" ] || version=0.0.0+$(git rev-list --count HEAD).g$(git rev-parse --short HEAD)
SOURCE_DATE_EPOCH=$(git log -1 --format=%ct)
export SOURCE_DATE_EPOCH CGO_ENABLED=0

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT INT TERM
# Built from an export of the commit, so that nothing uncommitted or ignored gets in.
mkdir "$work/src"
git archive HEAD | tar -x -C "$work/src"
rm -rf dist
mkdir dist

for arch in $ARCHS; do
	name=aloft_${version}_linux_$arch
	stage=$work/$name
	mkdir "$stage"
	case $arch in
	"$(go env GOHOSTARCH)") runc=.bin/runc && hack/build-runc.sh ;;
	arm64)
		runc=.bin/runc-arm64
		GOARCH=arm64 CC=aarch64-linux-gnu-gcc PKG_CONFIG_PATH=/usr/lib/aarch64-linux-gnu/pkgconfig hack/build-runc.sh
		;;
	*)
		echo "release: cannot build for $arch on this host" >&2
		exit 1
		;;
	esac
	embedded=$work/src/cmd/aloft/embedded
	rm -rf "$embedded/web" && cp -R cmd/aloft/embedded/web "$embedded/web"
	gzip -9nc "$root/$runc" >"$embedded/runc.gz"
	(
		cd "$work/src"
		export GOARCH="$arch"
		for b in pod-daemon exec-daemon sandbox; do
			echo "building $b for $arch"
			go build -trimpath -ldflags "-s -w -X main.version=$version" -o "$work/$b" "./cmd/$b"
			gzip -9nc "$work/$b" >"$embedded/$b.gz"
		done
		echo "building aloft for $arch"
		go build -trimpath -ldflags "-s -w -X main.version=$version" -o "$stage/aloft" ./cmd/aloft
	)
	cp internal/server/example.yaml "$stage/aloft.yaml"
	cp README.md CHANGELOG.md packaging/*.service packaging/*.socket packaging/sysusers.conf "$stage/"

	tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=go-w \
		-C "$work" -cf - "$name" | gzip -9n >"dist/$name.tar.gz"
	for format in deb rpm; do
		STAGE=$stage ARCH=$arch PACKAGE_VERSION=$version go run "$nfpm" package --config packaging/nfpm.yaml --packager "$format" --target dist/
	done
	go run "$sbom" bin -json -noserial -version "$version" -output "dist/$name.cdx.json" "$stage/aloft"
done
cp packaging/install.sh dist/
(cd dist && sha256sum ./* | sed 's|  \./|  |' >"$work/SHA256SUMS" && mv "$work/SHA256SUMS" .)

# The tarball of this host's architecture installs and runs.
if [ -f "dist/aloft_${version}_linux_$(go env GOHOSTARCH).tar.gz" ]; then
	PREFIX=$work/installed sh dist/install.sh dist
fi
ls -lh dist
