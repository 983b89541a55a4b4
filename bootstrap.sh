#!/bin/sh
# From a clean clone to a running program: installs what is missing, builds, shows the main job, runs the tests. For
# people and for CI; needs no terminal and reads nothing from stdin. `sh bootstrap.sh help` lists the commands.
set -eu
cd "$(dirname "$0")"
exec </dev/null

# The only list of packages. PURPOSE PACKAGE CHECK FEDORA, where CHECK finds the same thing on a system without dpkg:
# cmd:PROGRAM, pc:PKG-CONFIG-NAME, header:FILE, py:MODULE, kernel:MODULE.
package_table() {
  cat <<'END'
build build-essential    cmd:cc                 gcc
build cmake              cmd:cmake              cmake
build ninja-build        cmd:ninja              ninja-build
build pkg-config         cmd:pkg-config         pkgconf-pkg-config
build python3            cmd:python3            python3
build libibverbs-dev     pc:libibverbs          rdma-core-devel
build librdmacm-dev      pc:librdmacm           rdma-core-devel
build libev-dev          header:ev.h            libev-devel
build libjansson-dev     pc:jansson             jansson-devel
build libhwloc-dev       pc:hwloc               hwloc-devel
build libinih-dev        pc:inih                inih-devel
build libbsd-dev         header:bsd/sys/tree.h  libbsd-devel
build libsystemd-dev     pc:libsystemd          systemd-devel
build libsodium-dev      pc:libsodium           libsodium-devel
build libcmocka-dev      pc:cmocka              libcmocka-devel
build scdoc              cmd:scdoc              scdoc
test  zsh                cmd:zsh                zsh
test  lintian            cmd:lintian            rpmlint
test  gnuplot-nox        cmd:gnuplot            gnuplot-minimal
test  chromium           cmd:chromium           chromium
test  python3-pytest     py:pytest              python3-pytest
test  python3-jsonschema py:jsonschema          python3-jsonschema
test  ibverbs-utils      cmd:ibv_rc_pingpong    libibverbs-utils
test  rdmacm-utils       cmd:rping              librdmacm-utils
test  perftest           cmd:ib_read_bw         perftest
test  qperf              cmd:qperf              qperf
test  prometheus         cmd:promtool           golang-github-prometheus
test  clang              cmd:clang              clang
test  libclang-rt-14-dev cmd:clang              compiler-rt
test  libfabric-bin      cmd:fi_pingpong        libfabric
test  ucx-utils          cmd:ucx_perftest       ucx
lab   rdma-core          cmd:rdma-ndd           rdma-core
lab   qemu-system-x86    cmd:qemu-system-x86_64 qemu-system-x86-core
lab   linux-image-amd64  kernel:rdma_rxe        kernel-modules
lab   busybox-static     cmd:busybox            busybox
lab   cpio               cmd:cpio               cpio
lab   xz-utils           cmd:xz                 xz
lab   kmod               cmd:modprobe           kmod
lab   iproute2           cmd:rdma               iproute
END
}

usage() {
  cat <<'END'
usage: sh bootstrap.sh COMMAND

  demo      build, measure copy_blocking against this machine itself, show the result
  sweep     the same with several strategies over many sizes, in a minute: when to copy, when to register
  test      build with and without sanitizers, run every test, the ones in a virtual machine included
  build     install what building needs and build everything (preset release, in build/release)
  packages  print the packages that the commands above install
  help      this text

Missing packages are installed with apt-get (through sudo unless you are root). Nothing is installed twice.
END
}

say() { echo "bootstrap: $*"; }
die() {
  echo "bootstrap: $*" >&2
  exit 1
}

### Packages

packages_for() { # PURPOSE...: the rows of the table
  package_table | awk -v wanted=" $* " 'index(wanted, " " $1 " ")'
}

has_package() { # PACKAGE
  [ "$(dpkg-query -W -f='${db:Status-Status}' "$1" 2>/dev/null)" = installed ]
}

has_thing() { # CHECK
  case $1 in
    cmd:*) PATH=$PATH:/usr/sbin:/sbin command -v "${1#*:}" ;;
    pc:*) pkg-config --exists "${1#*:}" ;;
    header:*) echo "#include <${1#*:}>" | cc -E -x c - ;;
    py:*) /usr/bin/python3 -c "import ${1#*:}" ;;
    kernel:*) find /lib/modules -name "${1#*:}.ko*" | grep -q . ;;
  esac >/dev/null 2>&1
}

as_root() {
  if [ "$(id -u)" = 0 ]; then
    "$@"
  elif ! command -v sudo >/dev/null; then
    die "root is needed to install packages and there is no sudo; as root run: $*"
  elif [ -t 2 ]; then
    sudo "$@"
  else
    sudo -n "$@" || die "sudo wants a password and there is no terminal to ask for it; as root run: $*"
  fi
}

# No service that comes with a package is started.
apt() { as_root env DEBIAN_FRONTEND=noninteractive SYSTEMD_OFFLINE=1 apt-get -qq -o Dpkg::Use-Pty=0 "$@"; }

install_with_apt() { # PACKAGE...
  say "installing $*"
  find /var/lib/apt/lists -name '*_Packages*' 2>/dev/null | grep -q . || apt update
  # The lists may be older than the archive: then the first attempt fails, and a fresh list mends it.
  apt install --no-install-recommends -y "$@" >&2 || { apt update && apt install --no-install-recommends -y "$@" >&2; } ||
    die "could not install: $*"
}

need() { # PURPOSE...
  if command -v apt-get >/dev/null && command -v dpkg-query >/dev/null; then
    missing=$(packages_for "$@" | while read -r _ package _; do has_package "$package" || echo "$package"; done)
    # shellcheck disable=SC2086 # one word a package
    [ -z "$missing" ] || install_with_apt $missing
    return
  fi
  missing=$(packages_for "$@" | while read -r _ package check fedora; do
    has_thing "$check" || echo "  $package (Fedora: $fedora)"
  done)
  [ -z "$missing" ] && return
  echo "bootstrap: this is not Debian (no apt-get); install what these Debian packages hold, then run this again:" >&2
  echo "$missing" >&2
  exit 1
}

### Building

configured() { # PRESET
  [ -f "build/$1/build.ninja" ] || cmake --preset "$1" >"$log" 2>&1 || {
    cat "$log" >&2
    die "configuring preset $1 failed"
  }
}

build() { # PRESET [TARGET...]
  preset=$1
  shift
  say "building preset $preset in build/$preset"
  configured "$preset"
  cmake --build "build/$preset" ${1:+--target "$@"} >"$log" 2>&1 || {
    cat "$log" >&2
    die "building preset $preset failed"
  }
}

### demo

wait_for() { # SECONDS COMMAND...: until it succeeds
  tries=$(($1 * 10))
  shift
  until "$@" >/dev/null 2>&1; do
    tries=$((tries - 1))
    [ $tries -gt 0 ] && kill -0 "$daemon" 2>/dev/null || return 1
    sleep 0.1
  done
}

stop_daemon() {
  [ -n "$daemon" ] || return 0
  kill -TERM "$daemon" 2>/dev/null || :
  tries=100
  while kill -0 "$daemon" 2>/dev/null && [ $tries -gt 0 ]; do
    tries=$((tries - 1))
    sleep 0.1
  done
  kill -KILL "$daemon" 2>/dev/null && say "zcrdmad did not stop within 10 s and was killed" >&2
  ended=0
  wait "$daemon" || ended=$?
  daemon=
  return $ended
}

# What an ordinary user may register is little (8 MiB on Debian 12); half of it is the region, the rest is for the run.
region_size() {
  # shellcheck disable=SC3045 # not POSIX, but every sh of a Linux system has it
  limit=$(ulimit -l)
  if [ "$(id -u)" = 0 ] || [ "$limit" = unlimited ] || [ "$limit" -ge 524288 ]; then echo 256M; else echo "$((limit / 2))K"; fi
}

demo() { # ARGUMENTS of zcctl...
  state=$PWD/build/demo
  socket=$tmp/control.sock
  mkdir -p "$state"
  build/release/daemon/zcrdmad --socket "$socket" --state-dir "$state" --device auto --listen 0.0.0.0:0 \
    --region-size "$(region_size)" 2>"$log" &
  daemon=$!
  wait_for 30 build/release/ctl/zcctl --socket "$socket" stats || {
    grep -v ' info: ' "$log" >&2 || :
    if kill -0 "$daemon" 2>/dev/null; then die "zcrdmad did not become ready within 30 s"; else die "zcrdmad did not start"; fi
  }
  say "the device, an active RDMA port if there is one and otherwise the software device:"
  build/release/ctl/zcctl --socket "$socket" devices
  say "zcctl $*"
  build/release/ctl/zcctl --socket "$socket" "$@" || die "the $1 failed"
  stop_daemon || die "zcrdmad ended with status $?"
  say "results stay in build/demo; everything else is gone"
}

### test

# Every stage runs, even after one that failed, so that one look shows all failures.
stage() { # NAME COMMAND...
  name=$1
  shift
  say "tests: $name"
  "$@" || failed="${failed:+$failed, }$name"
}

run_tests() {
  failed=
  stage "release build" ctest --preset release
  stage "sanitizers" ctest --preset asan
  stage "fuzzers" ctest --preset fuzz
  if [ "$(uname -m)" = x86_64 ]; then
    stage "virtual machine with Soft-RoCE" ctest --preset lab
  else
    say "the virtual machine needs x86_64: its tests are left out"
  fi
  [ -z "$failed" ] || die "failed: $failed"
  say "all tests passed"
}

### What to do

daemon=
tmp=$(mktemp -d "${TMPDIR:-/tmp}/zcrdma.XXXXXX")
log=$tmp/log
trap 'stop_daemon >/dev/null 2>&1 || :; rm -rf "$tmp"' EXIT
trap 'say "stopped by SIGHUP" >&2; exit 129' HUP
trap 'say "stopped by SIGINT" >&2; exit 130' INT
trap 'say "stopped by SIGTERM" >&2; exit 143' TERM

case ${1-help} in
  demo)
    need build
    build release zcrdmad zcctl zcsoft
    demo run --strategy copy_blocking --peer self --size 1M --warmup 1 --measure 3
    say "to see copying and registering compared, in one minute: sh bootstrap.sh sweep"
    ;;
  sweep)
    need build
    build release zcrdmad zcctl zcsoft
    demo sweep --peer self --size 4K..4M --budget 1m --operations-max 16 --footprint 64M --strategy \
      copy_blocking,copy_non_blocking,naive_blocking,naive_non_blocking,pipeline_blocking,pipeline_non_blocking,ideal_non_blocking
    newest=$(find build/demo/results -name '*-sweep-*.json' | sort | tail -n 1)
    say "for another goal: build/release/ctl/zcctl recommend $newest --goal latency"
    say "as a page with plots (gnuplot-nox): build/release/ctl/zcctl report $newest -o sweep.html"
    ;;
  test)
    if [ "$(uname -m)" = x86_64 ]; then need build test lab; else need build test; fi
    build release
    build asan
    build fuzz
    run_tests
    ;;
  build)
    need build
    build release
    ;;
  packages) packages_for build test lab | awk '{ print $2 }' ;;
  help | -h | --help) usage ;;
  *)
    usage >&2
    die "there is no command $1"
    ;;
esac
