#!/bin/sh
# packaging.sh PACKAGE FOLDER STEP...: runs the steps in a copy of this machine: its files below an overlay, a /run and /tmp of its own.
# Called in a mount namespace of its own, in a network namespace.
set -eu
package=$1 folder=$2
shift 2
new=$folder/new
mkdir -p "$folder/layer" "$new"
mount -t tmpfs none "$folder/layer"
mkdir "$folder/layer/upper" "$folder/layer/work"
mount -t overlay none -o "lowerdir=/,upperdir=$folder/layer/upper,workdir=$folder/layer/work" "$new"
for shared in proc dev sys; do mount --rbind "/$shared" "$new/$shared"; done
for own in run tmp; do mount -t tmpfs none "$new/$own"; done
cp "$package" "$new/tmp/${package##*/}"
{
    echo "package=/tmp/${package##*/}"
    cat <<'END'
set -eu
# Everything that a package could leave behind; dpkg's own notes, the linker's cache and the copies of user tables are not its.
files() {
    find / -xdev \( -path /var/lib/dpkg -o -path /var/cache -o -path /var/log -o -path /root \) -prune -o -print |
        grep -v -e '^/etc/[a-z]*-$' -e '^/etc/ld.so.cache$' -e '^/etc/.pwd.lock$' | sort
}
users() { cat /etc/passwd /etc/group; }
logged() { "$@" > /tmp/package.log 2>&1 || { cat /tmp/package.log; exit 1; }; }
case $package in
*.deb)
    install() { logged dpkg -i "$package"; }
    purge() { logged dpkg -P ringway; }
    ;;
*.rpm)
    # Without the notes of rpm there are no dependencies: the libraries are this machine's.
    install() { logged rpm -i --nodeps --nosignature "$package"; }
    purge() { logged rpm -e --nodeps ringway; }
    ;;
esac
END
    cat
} > "$new/tmp/steps"
exec chroot "$new" sh /tmp/steps "$@"
