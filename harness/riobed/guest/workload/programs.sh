# SPDX-License-Identifier: Apache-2.0
# Run after products/unpack.sh, in a copy of a workload's folder, with the same arguments: for each, ./NAME runs
# /usr/bin/NAME of the Debian package NAME. It has its libraries and loader with it, in ./programs, so that it runs in
# stage 0, too.
mkdir programs
for program in "$@"; do
	# Each line is `NAME => PATH (ADDRESS)`, or that of the loader or of the kernel's own library.
	chroot unpacked /lib64/ld-linux-x86-64.so.2 --list "/usr/bin/$program" >libraries
	sed -n 's/.*=> \([^ ]*\) .*/\1/p' libraries | while read -r library; do
		cp "unpacked$library" programs
	done
	rm libraries
	cp "unpacked/usr/bin/$program" programs
	cat >"$program" <<-'WRAPPER'
		#!/bin/sh
		here=${0%/*}/programs
		exec "$here/ld-linux-x86-64.so.2" --library-path "$here" "$here/${0##*/}" "$@"
	WRAPPER
	chmod +x "$program"
done
cp unpacked/lib64/ld-linux-x86-64.so.2 programs
