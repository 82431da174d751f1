#!/bin/sh
# rpm.sh FOLDER: writes ringway-VERSION-1.MACHINE.rpm and ringway-devel-VERSION-1.MACHINE.rpm. Needs rpmbuild (Fedora: rpm-build, Debian: rpm).
# What is built is in RELEASE (target/release). The libraries that the programs need are found by rpmbuild itself.
set -eu
cd "$(dirname "$0")/.."
top=$PWD
mkdir -p "$1"
to=$(cd "$1" && pwd)
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
machine=$(uname -m)
libraries=/usr/lib64
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT

make -s install-programs "DESTDIR=$stage/ringway" PREFIX=/usr "LIBDIR=$libraries"
make -s install-c "DESTDIR=$stage/ringway-devel" PREFIX=/usr "LIBDIR=$libraries"
files=$stage/ringway
strip --strip-unneeded "$files/usr/bin/ringway" "$files$libraries/ringway/libringway_preload.so" "$files$libraries"/lib*.so."$version"
find "$stage"/*/usr/share/man -type f -exec gzip -9n {} +
for package in ringway ringway-devel; do
    for license in LICENSE-MIT LICENSE-APACHE; do
        install -D -m 644 "$license" "$stage/$package/usr/share/licenses/$package/$license"
    done
done
example=$files/usr/share/doc/ringway/ringway.toml
mkdir -p "$(dirname "$example")"
env -i "${RELEASE:-$top/target/release}/ringway" config show --config /dev/null > "$example"

# list FOLDER: its files for %files, and the folders that are the package's own.
list() {
    (cd "$1" && find . ! -type d | sed 's,^\.,,'; find . -type d -name 'ringway*' | sed 's,^\.,%dir ,')
}

# script NAME: what a Debian script does, for the argument that is like rpm's case.
script() { sed 1d "packaging/deb/$1"; }

cat > "$stage/ringway.spec" <<END
Name: ringway
Version: $version
Release: 1
Summary: TCP/IP stack in user space for unmodified programs
License: MIT OR Apache-2.0
Requires(post): shadow-utils
%description
The command, the library for programs, units of systemd, manual pages and completions.

%package devel
Summary: C headers of the Ringway network service
Requires: ringway = %{version}-%{release}
%description devel
Headers, pkg-config files and manual page; programs for mTCP and F-Stack too.

%post
set -- configure
$(script postinst)

%preun
if [ "\$1" = 0 ]; then set -- remove; else set -- upgrade; fi
$(script prerm)

%postun
# As is usual with rpm, the user and the configuration stay.
if [ "\$1" = 0 ]; then set -- remove; else set -- upgrade; fi
$(script postrm)
if [ "\$1" = remove ]; then rm -rf /var/lib/ringway /run/ringway /run/ringway.key /run/ringway.secret; fi

%files
$(list "$files")

%files devel
$(list "$stage/ringway-devel")
END
cp -a "$stage/ringway-devel/." "$files/"
# Debug packages and checks of a distribution are its own; the file names are as `make install` has them.
rpmbuild -bb --quiet --buildroot "$files" --define "_topdir $stage/rpm" --define "_rpmdir $to" --define "debug_package %{nil}" \
    --define "_build_id_links none" \
    --define "__os_install_post %{nil}" --define "_build_name_fmt %%{NAME}-%%{VERSION}-%%{RELEASE}.%%{ARCH}.rpm" \
    --target "$machine" "$stage/ringway.spec"
ls "$to/ringway-$version-1.$machine.rpm" "$to/ringway-devel-$version-1.$machine.rpm"
