#!/bin/sh
# The dock, which is furnished once; what the user makes of it stays.
config=${XDG_CONFIG_HOME:-$HOME/.config}
settings=$config/glib-2.0/settings/keyfile
if ! [ -e "$settings" ]; then
	mkdir -p "${settings%/*}" && cp @DIR@/dock/keyfile "$settings"
fi
launchers=$config/plank/dock1/launchers
if ! [ -e "$launchers" ]; then
	mkdir -p "$launchers" && cp @DIR@/dock/*.dockitem "$launchers"
fi
exec plank
