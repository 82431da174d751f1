#!/bin/sh
# archive.sh FOLDER: writes ringway-VERSION-MACHINE.tar.gz, an installation with PREFIX=/usr/local as it stands below /.
# What is built is in RELEASE (target/release). The same files give the same archive.
set -eu
cd "$(dirname "$0")/.."
to=$1
version=$(sed -n 's/^version = "\(.*\)"/\1/p' Cargo.toml)
stage=$(mktemp -d)
trap 'rm -rf "$stage"' EXIT
make -s install-files "DESTDIR=$stage"
mkdir -p "$to"
archive=$to/ringway-$version-$(uname -m).tar.gz
tar -C "$stage" --sort=name --owner=0 --group=0 --numeric-owner --mtime=@"${SOURCE_DATE_EPOCH:-0}" -c . | gzip -n > "$archive"
echo "$archive"
