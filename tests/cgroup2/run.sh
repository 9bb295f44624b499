#!/bin/sh
# Run the tests of control groups under Debian's kernel with control groups of version 2 only, in a virtual machine.
#
# The machine sees this host's files read-only, with a layer in memory above them: nothing here is changed by it.
# Needs: root, a Debian or Ubuntu host (x86-64) with apt; 4 GB of memory; the first time 75 MB to download.
# With /dev/kvm it takes minutes. Where that is missing or starts no ordinary kernel within 20 s, the processor is
# emulated, which takes ten times as long; RANKD_CGROUP2_ACCEL=tcg does so without a try.
# What is downloaded stays in ~/.cache/rankd-cgroup2. Other tests: sh tests/cgroup2/run.sh tests/integration/test_agent.py
set -eu
here=$(cd "$(dirname "$0")" && pwd)
repository=$(cd "$here/../.." && pwd)
cache=${RANKD_CGROUP2_CACHE:-$HOME/.cache/rankd-cgroup2}
tests=${*:-tests/integration/test_agent_limit.py tests/integration/test_agent_hostile.py tests/integration/test_agent_user.py \
    tests/integration/test_device_group.py tests/integration/test_agent_device.py}

fail() { echo "test-cgroup2: $*" >&2; exit 2; }
[ "$(id -u)" = 0 ] || fail "needs root"
case $repository/ in /tmp/*) fail "can't see a repository below /tmp, which the machine has for itself" ;; esac
[ "$(uname -m)" = x86_64 ] || fail "knows x86-64 only; this is $(uname -m)"
command -v apt-get > /dev/null || fail "needs a Debian or Ubuntu host: there is no apt-get here"

if ! command -v qemu-system-x86_64 > /dev/null || ! command -v busybox > /dev/null; then
    echo "== installing qemu-system-x86 and busybox-static"
    apt-get update -qq && apt-get install -qq -y --no-install-recommends qemu-system-x86 busybox-static > /dev/null
fi
mkdir -p "$cache"
if ! ls "$cache"/kernel/boot/vmlinuz-* > /dev/null 2>&1; then
    package=$(apt-cache depends linux-image-amd64 | sed -n 's/.*Depends: \(linux-image-[0-9][^ ]*\).*/\1/p' | head -1)
    [ -n "$package" ] || fail "apt knows no linux-image-amd64; run apt-get update, or use a Debian host"
    echo "== downloading $package"
    (cd "$cache" && apt-get download -qq -o APT::Sandbox::User=root "$package")
    dpkg -x "$cache/$package"_*.deb "$cache/kernel"
    rm -f "$cache/$package"_*.deb
fi
kernel=$(ls "$cache"/kernel/boot/vmlinuz-* | tail -1)

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
mkdir -p "$root/bin" "$root/modules"
cp "$(command -v busybox)" "$root/bin/busybox"
cp "$here/init" "$root/init"
chmod +x "$root/init"
for module in virtio_ring virtio virtio_pci_legacy_dev virtio_pci_modern_dev virtio_pci \
    netfs fscache 9pnet 9pnet_virtio 9p overlay; do
    find "$cache/kernel/lib/modules" -name "$module.ko" -exec cp {} "$root/modules/" \;
done
printf 'repository=%s\ntests="%s"\n' "$repository" "$tests" > "$root/settings"
(cd "$root" && find . | busybox cpio -o -H newc 2> /dev/null) > "$root.cpio"
trap 'rm -rf "$root" "$root.cpio"' EXIT

# boot OPTIONS_OF_QEMU APPENDED: one start of the machine, its console on standard output.
boot() {
    qemu-system-x86_64 $1 -smp 2 -m 4096 -display none -no-reboot -nodefaults -serial stdio \
        -kernel "$kernel" -initrd "$root.cpio" \
        -append "console=ttyS0 quiet panic=-1 nokaslr edd=off cgroup_no_v1=all $2" \
        -virtfs local,path=/,mount_tag=host,security_model=none,readonly=on,multidevs=remap < /dev/null
}

accelerator="-enable-kvm -cpu host"
why=
slow=
if [ "${RANKD_CGROUP2_ACCEL:-}" = tcg ]; then
    why="RANKD_CGROUP2_ACCEL is tcg"
elif ! [ -w /dev/kvm ]; then
    why="there is no /dev/kvm that can be written"
else
    echo "== trying /dev/kvm with $(basename "$kernel")"
    boot "$accelerator" trial > "$cache/trial.log" 2>&1 &
    trial=$!
    seconds=0
    while kill -0 $trial 2> /dev/null && [ $seconds -lt 20 ]; do sleep 1; seconds=$((seconds + 1)); done
    if ! grep -q '^== up' "$cache/trial.log"; then
        why="/dev/kvm did not start this kernel within 20 s ($(tail -c 200 "$cache/trial.log" | tr '\r\n' '  '))"
    fi
    pkill -KILL -P $trial 2> /dev/null || true
    kill -KILL $trial 2> /dev/null || true
    wait $trial 2> /dev/null || true
fi
if [ -n "$why" ]; then
    echo "== $why: the processor is emulated, which takes ten times as long"
    accelerator="-accel tcg,thread=multi -cpu max"
    slow=slow
fi

echo "== booting $(basename "$kernel") with control groups of version 2"
boot "$accelerator" "$slow" | tee "$cache/last.log"
grep -q '^== cgroup2: all passed' "$cache/last.log"
