"""Cgroups for one process: with a memory limit, or frozen."""

import contextlib
import itertools
import os
import re

from boxes import lib

import unittest

_numbers = itertools.count()


def mount_of(controller):
    """Returns (mount point, own group) of a v1 controller, or of v2 as "unified"."""
    for line in lib.read_text("/proc/self/mountinfo").splitlines():
        before, _, after = line.partition(" - ")
        kind, _, options = after.split(" ", 2)
        named = kind == "cgroup2" if controller == "unified" else (
            kind == "cgroup" and controller in options.split(","))
        if named:
            return before.split()[4]
    raise unittest.SkipTest("no control groups with %s here" % controller)


def own_group(controller):
    """Returns the directory of this process's own group, to which `enter` returns it."""
    paths = dict(line.split(":", 2)[1:] for line in lib.read_text("/proc/self/cgroup").splitlines())
    return mount_of(controller) + paths[controller]


def enter(directory):
    """Moves this process, as it is: what it starts from then on is in that group, too."""
    with open(os.path.join(directory, "cgroup.procs"), "w") as file:
        file.write("0")


class Group:
    """A new group below the topmost one. Its process returns there at the end."""

    def __init__(self, controller):
        self.top = mount_of(controller)
        self.path = os.path.join(
            self.top, "jeattach-test.%d.%d" % (os.getpid(), next(_numbers)))
        try:
            os.mkdir(self.path)
        except OSError as err:
            raise unittest.SkipTest("no control group can be made: %s" % err) from err

    def read(self, name):
        return lib.read_text(os.path.join(self.path, name))

    def write(self, name, value):
        with open(os.path.join(self.path, name), "w") as file:
            file.write(str(value))

    def number(self, name, key=None):
        """Returns the content of a file, or the number of a key in it (memory.stat)."""
        text = self.read(name)
        return int(re.search(r"(?m)^%s (\d+)$" % key, text)[1] if key else text)

    def squeeze(self, left):
        """v1: lowers the limit until the kernel has nothing more to reclaim, but for `left` bytes.
        Meanwhile a task without a page waits; then the kernel kills again. It swaps nothing."""
        self.write("memory.swappiness", 0)
        self.write("memory.oom_control", 1)
        for _ in range(4):
            with contextlib.suppress(OSError):  # EBUSY
                while True:
                    used = self.number("memory.usage_in_bytes") & -4096
                    self.write("memory.limit_in_bytes", used - 4096)
        self.write("memory.limit_in_bytes", self.number("memory.usage_in_bytes") + left)
        self.write("memory.oom_control", 0)

    def add(self, pid):
        self.write("cgroup.procs", pid)

    def remove(self):
        """Only empty groups can be removed, and a process that is ending may still be in it."""
        for pid in self.read("cgroup.procs").split():
            with contextlib.suppress(OSError):
                with open(os.path.join(self.top, "cgroup.procs"), "w") as file:
                    file.write(pid)

        def removed():
            with contextlib.suppress(OSError):
                os.rmdir(self.path)
            return not os.path.exists(self.path)

        lib.wait_until(removed)


@contextlib.contextmanager
def frozen(pid):
    """Freezes all threads of a process by the v1 freezer, as `podman pause` does."""
    group = Group("freezer")
    try:
        group.add(pid)
        group.write("freezer.state", "FROZEN")
        if not lib.wait_until(lambda: group.read("freezer.state").strip() == "FROZEN"):
            raise AssertionError("it does not freeze")
        yield
    finally:
        group.write("freezer.state", "THAWED")
        group.remove()


@contextlib.contextmanager
def frozen_unified(pid):
    """Freezes them by cgroup v2, where the threads sleep and could be stopped."""
    group = Group("unified")
    try:
        group.add(pid)
        group.write("cgroup.freeze", 1)
        if not lib.wait_until(lambda: "frozen 1" in group.read("cgroup.events")):
            raise AssertionError("it does not freeze")
        yield
    finally:
        group.write("cgroup.freeze", 0)
        group.remove()
