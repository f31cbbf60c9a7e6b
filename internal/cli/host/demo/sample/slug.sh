#!/bin/sh
# slug.sh TEXT: prints TEXT as a slug for a URL.
set -eu

slug() {
	printf '%s' "$1" | tr '[:upper:]' '[:lower:]' | sed 's/[^a-z0-9]/-/g'
}

slug "$1"
echo
