# SPDX-License-Identifier: Apache-2.0
# Run in the toolchain root, in a copy of a workload's folder, with the names of programs as arguments: for each, ./NAME
# runs /usr/bin/NAME of the Debian package NAME. It has its libraries and loader with it, in ./programs, so that it
# runs in stage 0, too. Packages are unpacked to ./unpacked, not installed: no script of theirs runs.
mkdir -p apt/lists/partial apt/cache/archives/partial unpacked programs
# With a status of its own apt believes nothing is installed, and the toolchain root stays as it is.
touch apt/status
cat >apt/conf <<CONF
Dir::State "$PWD/apt";
Dir::State::status "$PWD/apt/status";
Dir::Cache "$PWD/apt/cache";
APT::Sandbox::User "root";
APT::Install-Recommends "false";
CONF
APT_CONFIG=$PWD/apt/conf apt-get -qq update
APT_CONFIG=$PWD/apt/conf apt-get -qq --yes --download-only install base-files "$@"
# It has the links that make /bin, /lib and /lib64 folders of /usr.
dpkg-deb -x apt/cache/archives/base-files_*.deb unpacked
for package in apt/cache/archives/*.deb; do
	dpkg-deb -x "$package" unpacked
done
rm -r apt
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
