"""Makes an initramfs from files of this machine: programs with their libraries."""

import os
import re
import stat

import packages

# The default path of the C library; the guest has no ld.so.cache.
LIBRARIES = "/usr/lib"


def host_program(name):
    return packages.host_program(name)


def linked(program):
    """Yields (name, path) of every shared object that a file needs, the loader included."""
    found = []
    for line in packages.run(["ldd", program]).splitlines():
        words = re.match(r"\s*(\S+)(?: => (\S+))? \(0x", line)
        if "not found" in line:
            raise packages.Unavailable("%s: %s" % (program, line.strip()))
        if words and (words[2] or words[1].startswith("/")):
            found.append((words[1], words[2] or words[1]))
    return found


def library_path(name):
    """Returns the path of a library on this machine."""
    for line in packages.run(["/sbin/ldconfig", "-p"]).splitlines():
        words = line.split()
        if words[:1] == [name] and "x86-64" in line:
            return words[-1]
    return None


class Tree:
    """Files by their paths in the guest, written as a cpio archive (format newc, see the kernel's
    Documentation/driver-api/early-userspace/buffer-format.rst)."""

    def __init__(self):
        self.files = {}

    def add_file(self, path, source):
        self.files[path] = source

    def add_program(self, path, source):
        self.add_file(path, source)
        self._add_linked(source)

    def add_library(self, name):
        """Adds a library that is loaded at run time, if this machine has it."""
        path = library_path(name)
        if path:
            self.add_file("%s/%s" % (LIBRARIES, name), path)
            self._add_linked(path)

    def _add_linked(self, source):
        for name, path in linked(source):
            # The program has the path of its loader.
            where = name if name.startswith("/") else "%s/%s" % (LIBRARIES, name)
            self.add_file(where, path)

    def _directories(self):
        found = set()
        for path in self.files:
            while path.rpartition("/")[0]:
                path = path.rpartition("/")[0]
                found.add(path)
        return sorted(found)

    def write(self, target):
        with open(target, "wb") as out:
            for number, path in enumerate(self._directories()):
                _write_entry(out, number, path, stat.S_IFDIR | 0o755, b"")
            for number, path in enumerate(sorted(self.files)):
                with open(self.files[path], "rb") as source:
                    _write_entry(out, 1000 + number, path, stat.S_IFREG | 0o755, source.read())
            _write_entry(out, 0, "/TRAILER!!!", 0, b"")


def _write_entry(out, inode, path, mode, data):
    name = path.lstrip("/").encode() + b"\0"
    fields = (inode, mode, 0, 0, 1, 0, len(data), 0, 0, 0, 0, len(name), 0)
    header = b"070701" + b"".join(b"%08X" % field for field in fields) + name
    out.write(header + b"\0" * (-len(header) % 4))
    out.write(data + b"\0" * (-len(data) % 4))
