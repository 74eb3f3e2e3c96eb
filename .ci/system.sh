#!/bin/sh
# Installs what the tests need from Debian and is missing (.ci/tools.txt), as root or by sudo where it asks no password.
# Where it may not, it prints the line to type and fails. No SSH server or PostgreSQL server is started.
# Usage: sh .ci/system.sh [TOOLS [PYTHON]]
set -eu
cd "$(dirname "$0")/.."
tools=${1:-.ci/tools.txt}
python=${2:-python3}

major=$(apt-cache depends gcc 2>/dev/null | sed -n 's/.*Depends: gcc-\([0-9]*\)$/\1/p')
missing='' packages=''
while read -r tool package; do
	case $tool in
	'' | '#'*) continue ;;
	/*) test ! -e "$tool" || continue ;;
	*) ! command -v "$tool" >/dev/null || continue ;;
	esac
	missing="$missing $tool"
	case " $packages " in *" $package "*) ;; *) packages="$packages $package" ;; esac
done <<TOOLS
$(sed "s/GCC_MAJOR/${major:-12}/g" "$tools")
TOOLS
"$python" -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv" packages="$packages python3-venv"

if test -z "$missing"; then
	echo "system: all there"
	exit 0
fi
echo "system: missing$missing"
if ! command -v apt-get >/dev/null; then
	echo "system: this is not Debian; install what is missing by its means"
	exit 1
fi
line="apt-get update && sh .ci/no-new-servers.sh apt-get install --yes --no-install-recommends$packages"
if test "$(id -u)" = 0; then
	DEBIAN_FRONTEND=noninteractive sh -c "$line"
elif sudo --non-interactive true 2>/dev/null; then
	sudo --non-interactive DEBIAN_FRONTEND=noninteractive sh -c "$line"
else
	echo "system: type this for all tests:"
	echo "sudo sh -c '$line'"
	exit 1
fi
