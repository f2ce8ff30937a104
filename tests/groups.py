"""cgroups with a memory limit, of the version that this machine has."""

import contextlib
import os
import unittest

import lib


def _mount(kind, option=None):
    for line in lib.read_text("/proc/self/mountinfo").splitlines():
        words = line.split()
        rest = words[words.index("-") + 1:]
        if rest[0] == kind and words[3] == "/" and (not option or option in rest[2].split(",")):
            return words[4]
    return None


def _write(path, value):
    with open(path, "w") as file:
        file.write(str(value))


class MemoryGroup:
    """One cgroup below `parent`, or below the root; `remove` it after its processes have ended."""

    def __init__(self, name, limit=None, parent=None):
        self.v1 = parent.v1 if parent else _mount("cgroup", "memory") is not None
        root = parent.path if parent else _mount("cgroup", "memory") or _mount("cgroup2")
        if not root:
            raise unittest.SkipTest("no control groups are mounted")
        self.path = os.path.join(root, name)
        parent = os.path.dirname(self.path)
        self.made_parent = parent if not os.path.isdir(parent) else None
        try:
            if not self.v1:
                _write(os.path.join(root, "cgroup.subtree_control"), "+memory")
            os.makedirs(self.path)
            self.limit(limit)
        except OSError as error:
            self.remove()
            raise unittest.SkipTest("no memory limit can be set: %s" % error)

    def _file(self, name):
        return os.path.join(self.path, name)

    def limit(self, limit):
        if not limit:
            return
        _write(self._file("memory.limit_in_bytes" if self.v1 else "memory.max"), limit)
        with contextlib.suppress(OSError):  # no swap: the limit is hard
            if self.v1:
                _write(self._file("memory.memsw.limit_in_bytes"), limit)
            else:
                _write(self._file("memory.swap.max"), 0)

    def usage(self):
        name = "memory.usage_in_bytes" if self.v1 else "memory.current"
        return int(lib.read_text(self._file(name)))

    def inactive(self):
        name = "total_inactive_file" if self.v1 else "inactive_file"
        fields = dict(line.split() for line in lib.read_text(self._file("memory.stat")).splitlines())
        return int(fields[name])

    def enter(self):
        """For preexec_fn: moves the process that is about to start into the cgroup."""
        _write(self._file("cgroup.procs"), os.getpid())

    def remove(self):
        def gone():
            with contextlib.suppress(OSError):
                os.rmdir(self.path)
            return not os.path.isdir(self.path)

        lib.wait_until(gone, 5, 0.01)
        if self.made_parent:
            with contextlib.suppress(OSError):
                os.rmdir(self.made_parent)
