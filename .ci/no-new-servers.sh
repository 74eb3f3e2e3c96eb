#!/bin/sh
# Runs a command that may install openssh-server and PostgreSQL, but without the servers that Debian would start, now and
# at each boot: the tests start their own. A server that was there before is left as it is.
set -eu
root=${DPKG_ROOT:-}
policy=$root/usr/sbin/policy-rc.d # Debian's way to forbid that services are started while packages are installed

new=
test -e "$root/usr/sbin/sshd" || new="ssh"
test -e "$root/usr/lib/postgresql" || new="$new postgresql"
test -n "$new" || exec "$@"
if test ! -e "$policy"; then
	trap 'rm -f "$policy"' EXIT
	trap 'exit 1' HUP INT TERM
	{
		echo '#!/bin/sh'
		for service in $new; do echo "case \"\$*\" in *$service*) exit 101 ;; esac"; done
	} >"$policy"
	chmod 755 "$policy"
fi
"$@"
# `systemctl enable --now ssh` (or postgresql) is for those who want it.
for service in $new; do
	case $service in
	ssh) program=usr/sbin/sshd ;;
	*) program=usr/lib/postgresql ;;
	esac
	test ! -e "$root/$program" || update-rc.d "$service" disable
done
