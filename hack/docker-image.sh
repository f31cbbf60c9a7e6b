#!/bin/sh
# docker-image.sh DIR: creates in DIR the root of a Debian with Docker and Docker
# Compose, for the image rootfs:DIR.
set -eu
here=$(dirname "$0")
# shellcheck disable=SC2046 # a list of packages
exec "$here/debian-image.sh" "$1" busybox-static curl iproute2 $(grep -v '^#' "$here/../images/docker.txt")
