#!/bin/sh
# The browser of the desktop: the one that the environment names, or Chrome or
# Chromium, whichever the image has. It draws with the processor. The machine
# isolates it, so it needs no sandbox of its own, which would not start for root.
for name in ${CHROME_EXECUTABLE_PATH:+"$CHROME_EXECUTABLE_PATH"} google-chrome-stable google-chrome chromium chromium-browser; do
	command -v "$name" >/dev/null || continue
	exec "$name" --no-sandbox --test-type --disable-dev-shm-usage --use-gl=angle --use-angle=swiftshader-webgl \
		--password-store=basic --no-first-run --no-default-browser-check --remote-debugging-port=9222 \
		--user-data-dir="${XDG_CONFIG_HOME:-$HOME/.config}/google-chrome" --class=google-chrome \
		--window-size=1840,1120 --window-position=20,50 "$@"
done
echo "the image has neither Chrome nor Chromium" >&2
exit 127
