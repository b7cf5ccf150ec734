# SPDX-License-Identifier: Apache-2.0
# Run after products/unpack.sh: keeps the emulator, with its libraries, its loader and its firmware, and none of its
# modules. ./qemu-system-x86_64 runs it wherever the folder is.
program=usr/bin/qemu-system-x86_64
mkdir -p usr/bin usr/lib usr/share
chroot unpacked /lib64/ld-linux-x86-64.so.2 --list "/$program" >libraries
sed -n 's/.*=> \([^ ]*\) .*/\1/p' libraries | while read -r library; do
	cp "unpacked$library" usr/lib
done
cp "unpacked/$program" unpacked/lib64/ld-linux-x86-64.so.2 usr/bin
cp -r unpacked/usr/share/qemu unpacked/usr/share/seabios usr/share
rm -r libraries unpacked
# Beside its program QEMU looks for this, and takes firmware and modules from there instead of from the host (QEMU,
# util/cutils.c, get_relocated_path()). The program that it goes by is the loader.
ln -s ../.. usr/bin/qemu-bundle
cat >qemu-system-x86_64 <<-'WRAPPER'
	#!/bin/sh
	here=${0%/*}/usr
	exec "$here/bin/ld-linux-x86-64.so.2" --library-path "$here/lib" "$here/bin/qemu-system-x86_64" "$@"
WRAPPER
chmod +x qemu-system-x86_64
