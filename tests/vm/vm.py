"""The tool on another kernel: a virtual machine without KVM, with files of this machine.

  vm.py 5.10|6.1|6.12 [--long] [--only NAME[,NAME]...] [--keep DIRECTORY]

The initramfs contains the tool, its targets and their libraries. Its first process (guest/) runs
the checks and reports each on the second serial port. Exit code 77 if no machine can be started.
"""

import argparse
import glob
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(os.path.dirname(HERE), "matrix"), os.path.dirname(HERE)]

import apparmor
import initramfs
import kernels
import lib
import releases

MEMORY = "768"
PATIENCE, LONG_PATIENCE = 900, 7000
# All features of the emulator except cmpxchg16b, after which it may leave wrong flags.
CPU = "max,-cx16"
BOOTS = 3  # repeated if the kernel itself crashes, which happens under emulation
INIT = os.environ.get("JEATTACH_VM_INIT", os.path.join(lib.ROOT, "build", "tests", "vm", "init"))
SAFETY = os.environ.get(
    "JEATTACH_SAFETY_VICTIMS", os.path.join(lib.ROOT, "build", "tests", "safety")
)
# Libraries that the tool loads at run time.
LOADED = ("libunwind-x86_64.so.8", "libdw.so.1", "libz.so.1")
# isa-debug-exit: twice the guest's code, plus one.
GOOD_EXIT = 1


def static_program():
    """Adds a program with its own jemalloc; the guest skips its check if there is none."""
    try:
        return releases.static_program("5.3.0")
    except unittest.SkipTest as reason:
        print("no static program: %s" % reason)
        return None


def policy(directory):
    """Adds an AppArmor policy; the guest skips its check if there is none."""
    try:
        return apparmor.compile_policy(directory)
    except unittest.SkipTest as reason:
        print(reason)
        return None


def make_initramfs(path, directory):
    tree = initramfs.Tree()
    tree.add_file("/init", INIT)
    tree.add_program("/usr/bin/jeattach", lib.TOOL)
    tree.add_program("/usr/bin/jeattach-traced", lib.TRACED_TOOL)
    tree.add_program("/usr/bin/redis-server", initramfs.host_program("redis-server"))
    tree.add_program("/victims/victim", os.path.join(lib.VICTIMS, "victim"))
    tree.add_program("/victims/forker", os.path.join(lib.VICTIMS, "forker"))
    for name in ("blocking", "registers"):
        tree.add_program("/victims/" + name, os.path.join(SAFETY, name))
    for made in glob.glob(os.path.join(releases.HOME, "packages", "*", "jeattach-*-x86_64")):
        tree.add_file("/usr/bin/jeattach-static", made)  # if the tests of packaging came first
    static = static_program()
    if static:
        tree.add_file("/victims/allocator", static)
    profile = policy(directory)
    if profile:
        tree.add_file("/apparmor.policy", profile)
    for name in LOADED:
        tree.add_library(name)
    tree.write(path)


def command(kernel, initrd, directory, options):
    words = "console=ttyS0 quiet panic=-1"
    words += " jeattach.long" * options.long
    words += " jeattach.only=%s" % options.only if options.only else ""
    argv = [initramfs.host_program("qemu-system-x86_64")]
    argv += "-accel tcg -M q35 -nodefaults -nographic -no-reboot".split()
    argv += ["-cpu", options.cpu]
    argv += ["-smp", "2" if options.long else "1"]
    argv += ["-m", MEMORY, "-kernel", kernel, "-initrd", initrd, "-append", words]
    argv += ["-serial", "file:%s/console" % directory, "-serial", "file:%s/report" % directory]
    argv += ["-device", "isa-debug-exit,iobase=0xf4,iosize=1"]
    return argv


def boot(kernel, directory, options):
    """Returns the exit code of the machine, None if it had to be killed."""
    initrd = os.path.join(directory, "initrd")
    make_initramfs(initrd, directory)
    machine = subprocess.Popen(
        lib.with_parent(command(kernel, initrd, directory, options)), stdin=subprocess.DEVNULL
    )
    try:
        return machine.wait(LONG_PATIENCE if options.long else PATIENCE)
    except subprocess.TimeoutExpired:
        return None
    finally:
        lib.end_process(machine)


def read_lines(path):
    try:
        with open(path, errors="replace") as file:
            return file.read().splitlines()
    except OSError:
        return []


def judge(code, version, lines):
    """Returns the faults; a check that the guest has not reported is one."""
    faults = [line for line in lines if line.startswith("FAIL ")]
    counts = [re.match(r"total (\d+) ok, (\d+) failed, (\d+) skipped$", line) for line in lines]
    counts = [[int(number) for number in found.groups()] for found in counts if found]
    said = [sum(line.startswith(word) for line in lines) for word in ("ok ", "FAIL ", "skip ")]
    if not any(line.startswith("kernel %s." % version) for line in lines):
        faults.append("it is no kernel %s" % version)
    if code is None:
        faults.append("the machine did not end in time")
    elif code != GOOD_EXIT and not faults:
        faults.append("the machine ended with %s" % code)
    if counts != [said]:
        faults.append("the machine's report is not whole: %s, counted %s" % (counts, said))
    elif not said[0]:
        faults.append("nothing was checked")
    return faults


def panicked(console):
    return any("Kernel panic" in line for line in console)


def boot_and_judge(kernel, directory, options):
    """Returns the faults, and the lines of the console."""
    begun = time.monotonic()
    code = boot(kernel, directory, options)
    lines = read_lines(os.path.join(directory, "report"))
    print("\n".join(lines))
    print("%.1f s" % (time.monotonic() - begun))
    return judge(code, options.kernel, lines), read_lines(os.path.join(directory, "console"))


def run(options):
    kernel = kernels.image(options.kernel)
    directory = options.keep or tempfile.mkdtemp(prefix="jeattach-vm.")
    os.makedirs(directory, exist_ok=True)
    try:
        for _ in range(BOOTS):
            faults, console = boot_and_judge(kernel, directory, options)
            if not panicked(console):
                break
            print("\n".join(console[-60:]))
            print("the emulated kernel has crashed")
        if faults:
            print("\n".join(console[-30:]))
            print("\n".join("FAULT: %s" % fault for fault in faults))
        return 1 if faults else 0
    finally:
        if not options.keep:
            shutil.rmtree(directory, True)


def main():
    lib.raise_on_signals()
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("kernel", choices=kernels.SUITES)
    parser.add_argument("--long", action="store_true", help="all calls, all points of death")
    parser.add_argument("--cpu", default=CPU, help="the model of its CPU, as qemu names it")
    parser.add_argument("--only", help="checks whose names begin with one of these")
    parser.add_argument("--sample", metavar="NAMES", help="the same, except in ./test --long")
    parser.add_argument("--keep", metavar="DIRECTORY", help="leave the machine's files there")
    options = parser.parse_args()
    options.only = options.only or (None if lib.LONG else options.sample)
    try:
        return run(options)
    except unittest.SkipTest as reason:
        print("SKIP: %s" % reason)
        return lib.SKIPPED


if __name__ == "__main__":
    sys.exit(main())
