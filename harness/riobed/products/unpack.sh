# SPDX-License-Identifier: Apache-2.0
# Run in the toolchain root, in an empty folder, with the names of Debian packages as arguments: these and what they
# depend on are unpacked to ./unpacked, not installed. No script of theirs runs.
mkdir -p apt/lists/partial apt/cache/archives/partial unpacked
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
