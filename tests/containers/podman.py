"""A private podman: its containers, configuration and storage are in one directory."""

import json
import os
import shutil
import subprocess
import unittest

import boxes
from boxes import lib

# An engine mounts over existing paths only.
MOUNTED = ("proc", "sys", "dev", "etc", "run", "tmp", "var/tmp")
MOUNTED_FILES = ("etc/hostname", "etc/hosts", "etc/resolv.conf", "run/.containerenv")

# Limits that can be set without CAP_SYS_RESOURCE, and a cgroup manager that needs no systemd.
CONTAINERS_CONF = """
[containers]
default_ulimits = ["nofile=1024:4096", "nproc=4096:4096"]
[engine]
cgroup_manager = "cgroupfs"
runtime = "runc"
events_logger = "none"
"""
STORAGE_CONF = """
[storage]
driver = "vfs"
runroot = "%(own)s/run"
graphroot = "%(own)s/storage"
"""


def make_root(directory, programs):
    """As boxes.make_root, for --rootfs."""
    os.chmod(os.path.dirname(directory), 0o755)
    boxes.make_root(directory, programs, MOUNTED)
    for file in MOUNTED_FILES:
        open(os.path.join(directory, file), "w").close()
    return directory


class Podman:
    """user: a uid for rootless containers, in a user namespace where that user is root."""

    def __init__(self, directory, user=None):
        for program in ("podman", "runc", "setpriv"):
            if not shutil.which(program):
                raise unittest.SkipTest("%s is not installed" % program)
        self.directory = directory
        self.names = []
        self.before = []
        os.chmod(directory, 0o755)
        own = os.path.join(directory, "own")
        os.mkdir(own, 0o700)
        if user is not None:
            os.chown(own, user, user)
            self.before = ["setpriv", "--reuid", str(user), "--regid", str(user), "--clear-groups"]
        self.env = {
            "PATH": os.environ["PATH"],
            "HOME": own,
            "XDG_RUNTIME_DIR": own,
            "TMPDIR": own,
            "CONTAINERS_CONF": self._file("containers.conf", CONTAINERS_CONF),
            "CONTAINERS_STORAGE_CONF": self._file("storage.conf", STORAGE_CONF % {"own": own}),
        }

    def _file(self, name, text):
        path = os.path.join(self.directory, name)
        with open(path, "w") as file:
            file.write(text)
        return path

    def as_user(self, *argv):
        """Runs a command as the owner of these containers."""
        words = self.before + [str(word) for word in argv]
        return subprocess.run(words, env=self.env, cwd=self.directory, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=60)

    def call(self, *words):
        return self.as_user("podman", *words)

    def checked(self, *words):
        done = self.call(*words)
        if done.returncode:
            raise AssertionError("podman %s: %s" % (" ".join(words), done.stderr.decode()))
        return done.stdout.decode().strip()

    def start(self, name, root, command, *options):
        """Starts a container of that name in the background."""
        name = "jeattach-test-%d-%s" % (os.getpid(), name)
        self.names.append(name)
        done = self.call("run", "-d", "--name", name, "--network", "none", *options,
                         "--rootfs", root, *command)
        if done.returncode:
            raise unittest.SkipTest("podman starts no container here: %s"
                                    % done.stderr.decode().strip().splitlines()[-1:])
        return name

    def run(self, root, command, *options):
        """Runs a container to its end. Returns a lib.Result."""
        done = self.call("run", "--rm", "--network", "none", *options, "--rootfs", root, *command)
        return as_result(command, done)

    def inspect(self, name):
        return json.loads(self.checked("inspect", name))[0]

    def stop(self):
        for name in self.names:
            self.call("rm", "--force", "--time", "0", name)
        if self.before:  # rootless: a pause process of podman keeps the namespace until this
            self.call("system", "migrate")


def as_result(command, done):
    return lib.Result([str(word) for word in command], done.returncode, done.stdout,
                      done.stderr.decode(errors="replace"), 0)
