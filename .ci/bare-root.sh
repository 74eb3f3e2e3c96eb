#!/bin/sh
# Runs commands as on a fresh machine: in a bare Debian 12 root, in a clone of this repository. It needs root and mmdebstrap.
# Usage: sh .ci/bare-root.sh ROOT USER COMMAND...
#   ROOT     the folder of the root; it is made where there is none, with what the README asks for and nothing else
#   USER     who runs the command: root, or another name, which gets an account
#   COMMAND  a shell command; each runs in a clone of its own
# The machine's own settings of apt and pip are copied. KEEP="PATH ..." names further files and folders that these need, such
# as folders with packages or certificates.
set -eu
root=$1 user=$2
shift 2
source=$(cd "$(dirname "$0")/.." && pwd)
settings="/etc/apt/sources.list /etc/apt/sources.list.d /etc/apt/apt.conf.d /etc/apt/preferences.d /etc/resolv.conf /etc/hosts
/etc/ssl/certs /usr/share/ca-certificates /usr/local/share/ca-certificates /etc/pip.conf /etc/xdg/pip $HOME/.config/pip ${KEEP:-}"

if test ! -e "$root/etc/debian_version"; then
	mmdebstrap --variant=minbase --include=ca-certificates,git,make,gcc,libc6-dev,python3-venv bookworm "$root"
fi
for path in $settings; do
	test -e "$path" || continue
	mkdir -p "$root$(dirname "$path")"
	cp -RLf "$path" "$root$(dirname "$path")/" 2>/dev/null || true # dangling links of certificates
done
mkdir -p "$root/source.git"
git -C "$source" push --quiet --force "$root/source.git" HEAD:refs/heads/main 2>/dev/null || {
	git init --quiet --bare --initial-branch=main "$root/source.git"
	git -C "$source" push --quiet --force "$root/source.git" HEAD:refs/heads/main
}
printf '[safe]\n\tdirectory = /source.git\n' >"$root/etc/gitconfig" # root owns it, and others clone it
if grep -q " $(cd "$root" && pwd)/" /proc/mounts; then
	echo "bare-root: folders of this machine are still mounted below $root: unmount them before it is used or removed"
	exit 1
fi
mounted=''
leave() { for place in $mounted; do umount --lazy "$root$place"; done; }
trap leave EXIT
trap 'exit 1' HUP INT TERM
for place in /proc /sys /dev; do
	mount --rbind "$place" "$root$place"
	mount --make-rslave "$root$place"
	mounted="$place $mounted"
done
home=/root
if test "$user" != root; then
	home=/home/$user
	chroot "$root" id "$user" >/dev/null 2>&1 || chroot "$root" useradd --create-home --shell /bin/sh "$user"
	mkdir -p "$root$home/.config"
	test ! -e "$HOME/.config/pip" || cp -RL "$HOME/.config/pip" "$root$home/.config/"
	chroot "$root" chown -R "$user" "$home"
fi
# Only settings of pip and certificates are passed on.
names=$(env | sed -n 's/^\(PIP_[A-Z_]*\|[A-Z_]*CERT[A-Z_]*\|[A-Z_]*CA_BUNDLE\|CI\)=.*/\1/p')
number=0
for command in "$@"; do
	number=$((number + 1))
	{
		echo "set -eu"
		for name in $names; do printf "export %s='%s'\n" "$name" "$(printenv "$name" | sed "s/'/'\\\\''/g")"; done
		echo "export HOME=$home LC_ALL=C.UTF-8 PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
		echo "cd $home"
		echo "rm -rf edgetune-$number"
		echo "git clone --quiet /source.git edgetune-$number"
		echo "cd edgetune-$number"
		echo "$command"
	} >"$root/command.sh"
	echo "--- as $user: $command"
	start=$(date +%s)
	if test "$user" = root; then chroot "$root" sh /command.sh; else chroot "$root" su "$user" -c "sh /command.sh"; fi
	echo "--- $command: passed in $(($(date +%s) - start)) s"
done
