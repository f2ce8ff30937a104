"""A process frozen in a cgroup of its own, as docker pause and systemctl freeze do it."""

import contextlib
import os
import unittest

import lib

CGROUP = "/sys/fs/cgroup"


class Freezer:
    """A new cgroup with one process in it; it is thawed and removed at the end of the test."""

    def __init__(self, test, pid, hierarchy, state, frozen, thawed):
        self.path = os.path.join(CGROUP, hierarchy, "jeattach-test-%d" % os.getpid())
        self.state = os.path.join(self.path, state)
        self.words = frozen, thawed
        self.reached = ("freezer.state", "FROZEN") if state == "freezer.state" else \
            ("cgroup.events", "frozen 1")
        try:
            os.mkdir(self.path)
        except OSError as error:
            raise unittest.SkipTest("cannot make a cgroup: %s" % error)
        self.home = os.path.join(CGROUP, hierarchy, "cgroup.procs")
        test.addCleanup(self.remove, test, pid)
        if not os.path.exists(self.state):
            raise unittest.SkipTest("%s has no freezer" % hierarchy)
        try:
            write(os.path.join(self.path, "cgroup.procs"), str(pid))
        except OSError as error:
            raise unittest.SkipTest("cannot move a process to a cgroup: %s" % error)

    def freeze(self, test):
        write(self.state, self.words[0])
        name, word = self.reached
        test.assertTrue(lib.wait_until(lambda: word in lib.read_text(
            os.path.join(self.path, name))))

    def thaw(self):
        write(self.state, self.words[1])

    def remove(self, test, pid):
        with contextlib.suppress(OSError):
            self.thaw()
        with contextlib.suppress(OSError):
            write(self.home, str(pid))
        test.assertTrue(lib.wait_until(self.is_removed), self.path)

    def is_removed(self):
        with contextlib.suppress(OSError):
            os.rmdir(self.path)
        return not os.path.exists(self.path)


def version_1(test, pid):
    return Freezer(test, pid, "freezer", "freezer.state", "FROZEN", "THAWED")


def version_2(test, pid):
    hierarchy = "unified" if os.path.isdir(os.path.join(CGROUP, "unified")) else ""
    return Freezer(test, pid, hierarchy, "cgroup.freeze", "1", "0")


def any_version(test, pid):
    try:
        return version_1(test, pid)
    except unittest.SkipTest:
        return version_2(test, pid)


def write(path, text):
    with open(path, "w", encoding="ascii") as file:
        file.write(text)
