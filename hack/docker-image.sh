#!/bin/sh
# docker-image.sh DIR: creates in DIR the root of a Debian with Docker and Docker
# Compose, for the image rootfs:DIR.
set -eu
exec "$(dirname "$0")/debian-image.sh" "$1" busybox-static curl docker.io docker-compose iproute2 iptables mount
