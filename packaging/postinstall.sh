#!/bin/sh
# Runs after the package is installed or upgraded. Starts nothing: the server has
# no model before somebody has edited its configuration.
set -e
if ! getent passwd aloft >/dev/null; then
	systemd-sysusers aloft.conf 2>/dev/null ||
		useradd --system --user-group --home-dir /var/lib/aloft --no-create-home --shell /usr/sbin/nologin --comment "Aloft server" aloft
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload || true
	if systemctl --quiet is-active aloft; then
		echo "aloft: restart the server to use this version: systemctl restart aloft-host-daemon aloft"
		exit 0
	fi
fi
echo "aloft: edit /etc/aloft/aloft.yaml, then run: systemctl enable --now aloft"
