#!/bin/sh
# Runs a command that may install openssh-server, but without the server that Debian would start on port 22 of all
# addresses, now and at each boot: the tests start their own, on loopback. One that was there before is left as it is.
set -eu
root=${DPKG_ROOT:-}
policy=$root/usr/sbin/policy-rc.d # Debian's way to forbid that services are started while packages are installed

test ! -e "$root/usr/sbin/sshd" || exec "$@"
if test ! -e "$policy"; then
	trap 'rm -f "$policy"' EXIT
	trap 'exit 1' HUP INT TERM
	printf '#!/bin/sh\ncase "$*" in *ssh*) exit 101 ;; esac\n' >"$policy"
	chmod 755 "$policy"
fi
"$@"
# `systemctl enable --now ssh` is for those who want it.
test ! -e "$root/usr/sbin/sshd" || update-rc.d ssh disable
