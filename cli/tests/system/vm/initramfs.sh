#!/bin/sh
# initramfs.sh KERNEL MODULES OUT: an archive of busybox, the modules that reach the host's files over 9p, and those named.
# KERNEL is a folder with boot/ and lib/modules/ as the Debian package has them.
set -eu
kernel=$1 modules=$2 out=$3
version=$(ls "$kernel/lib/modules")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/bin" "$work/modules" "$work/proc" "$work/sys" "$work/dev" "$work/root" "$work/lower" "$work/upper"
cp "$(command -v busybox)" "$work/bin/busybox"
cp "$(dirname "$0")/init" "$work/init"
chmod +x "$work/init"
for module in virtio_pci 9pnet_virtio 9p overlay virtio_console af_packet $modules; do
    modprobe -d "$kernel" -S "$version" --show-depends "$module" 2>/dev/null || true
done | awk '$1 == "insmod" && !seen[$2]++ { print $2 }' | while read -r file; do
    name=$(basename "$file")
    name=${name%.xz}
    case $file in *.xz) xz -dc "$file" >"$work/modules/$name" ;; *) cp "$file" "$work/modules/$name" ;; esac
    echo "$name" >>"$work/modules/list"
done
(cd "$work" && find . | busybox cpio -o -H newc 2>/dev/null | gzip -1) >"$out"
