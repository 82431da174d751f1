#!/bin/sh
# deb.sh FOLDER: writes ringway_VERSION_MACHINE.deb and ringway-dev_VERSION_MACHINE.deb. Needs dpkg-dev.
# What is built is in RELEASE (target/release).
set -eu
cd "$(dirname "$0")/.."
top=$PWD
mkdir -p "$1"
to=$(cd "$1" && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
machine=$(dpkg --print-architecture)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

# control NAME SECTION DEPENDS SUMMARY TEXT
control() {
    mkdir -p "$stage/$1/DEBIAN"
    cat > "$stage/$1/DEBIAN/control" <<END
Package: $1
Version: $version
Architecture: $machine
Maintainer: The Ringway authors <ringway@localhost>
Section: $2
Priority: optional
Depends: $3
Description: $4
 $5
END
}

# finish NAME: compresses manual pages as Debian does, adds the licenses, and writes the package.
finish() {
    find "$stage/$1/usr/share/man" -type f -exec gzip -9n {} +
    install -D -m 644 LICENSE-MIT "$stage/$1/usr/share/doc/$1/LICENSE-MIT"
    install -m 644 LICENSE-APACHE "$stage/$1/usr/share/doc/$1/LICENSE-APACHE"
    dpkg-deb --root-owner-group --build "$stage/$1" "$to/$1_${version}_$machine.deb"
}

make -s install-programs "DESTDIR=$stage/ringway" PREFIX=/usr
make -s install-c "DESTDIR=$stage/ringway-dev" PREFIX=/usr
files=$stage/ringway/usr
strip --strip-unneeded "$files/bin/ringway" "$files/lib/ringway/libringway_preload.so" "$files"/lib/lib*.so."$version"

# Where Debian's zsh looks.
mv "$files/share/zsh/site-functions" "$files/share/zsh/vendor-completions"

# The libraries that the programs were linked with, as packages.
mkdir -p "$stage/shlibs/debian"
echo "Source: ringway" > "$stage/shlibs/debian/control"
libraries=$(cd "$stage/shlibs" && dpkg-shlibdeps -O "$files/bin/ringway" "$files/lib/ringway/libringway_preload.so" \
    "$files"/lib/lib*.so."$version" 2>/dev/null | sed -n 's/^shlibs:Depends=//p')
test -n "$libraries"

control ringway net "$libraries, passwd" "TCP/IP stack in user space for unmodified programs" \
    "The command, the library for programs, units of systemd, manual pages and completions."
control ringway-dev libdevel "ringway (= $version)" "C headers of the Ringway network service" \
    "Headers, pkg-config files and manual page; programs for mTCP and F-Stack too."
for script in postinst prerm postrm; do install -m 755 "packaging/deb/$script" "$stage/ringway/DEBIAN/$script"; done
example=$stage/ringway/usr/share/doc/ringway/examples/ringway.toml
mkdir -p "$(dirname "$example")"
env -i "${RELEASE:-$top/target/release}/ringway" config show --config /dev/null > "$example"
finish ringway
finish ringway-dev
