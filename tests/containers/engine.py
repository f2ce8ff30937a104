"""Podman containers: only Debian's redis-server in one, and the tool in another beside it."""

import json
import os
import re
import shutil
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import boxes  # noqa: E402
from boxes import lib  # noqa: E402
from podman import Podman, as_result, make_root  # noqa: E402

USER = 65532
CONF = "prof:true,prof_active:false,lg_prof_sample:12,prof_prefix:/tmp/jeprof"
REDIS = "/redis-server --bind 127.0.0.1 --enable-debug-command yes --save".split() + [""]


class Engine(boxes.TestCase):
    def setUp(self):
        super().setUp()
        for program in ("redis-server", "redis-cli", "nsenter"):
            if not shutil.which(program):
                raise unittest.SkipTest("%s is not installed" % program)
        self.podman = Podman(self.directory())
        self.addCleanup(self.podman.stop)
        redis = os.path.realpath(shutil.which("redis-server"))
        root = lambda name: os.path.join(self.directory(), name)
        self.tool_root = make_root(root("tool"), {"jeattach": lib.TOOL})
        self.redis_root = make_root(root("redis"), {"redis-server": redis})

    def redis(self, *options):
        """Returns its name and its pid on the host."""
        name = self.podman.start("redis", self.redis_root, REDIS, "--read-only",
                                 "--env", "MALLOC_CONF=" + CONF, *options)
        pid = self.podman.inspect(name)["State"]["Pid"]
        self.assertTrue(lib.wait_until(lambda: self.answers(pid, "ping") == "PONG"),
                        self.podman.call("logs", name))
        return name, pid

    def answers(self, pid, *words):
        inside = ["nsenter", "--net=/proc/%d/ns/net" % pid, "redis-cli"] + list(words)
        return subprocess.run(inside, capture_output=True, text=True, timeout=20).stdout.strip()

    def fill(self, pid):
        """Fills redis with about 20 MB."""
        self.assert_ran(lib.run_tool("on", pid))
        self.assertEqual(self.answers(pid, "debug", "populate", "100000", "key", "100"), "OK")
        self.assert_ran(lib.run_tool("off", pid))

    def beside(self, name, *words, options=()):
        """Runs the tool in a container that shares the target's pid namespace."""
        return self.podman.run(self.tool_root, ["/jeattach"] + list(words), "--read-only",
                               "--pid", "container:" + name, *options)

    def assert_redis_profile(self, data):
        """The profile has the data of `fill`: a sample every 4 KiB of 20 MB."""
        self.assert_profile(data, 5)
        samples = re.search(rb"(?m)^  t\*: (\d+): \d+ ", data)
        self.assertGreater(int(samples[1]), 1000, data[:200])

    def test_sidecar(self):
        name, pid = self.redis("--user", USER, "--cap-drop", "all")
        self.fill(pid)
        self.assert_redis_profile(
            self.assert_ran(lib.run_tool("dump", pid, "-o", "-")).out)
        only_ptrace = ("--cap-drop", "all", "--cap-add", "SYS_PTRACE")
        result = self.assert_ran(self.beside(name, "dump", 1, "-o", "-", options=only_ptrace))
        self.assert_redis_profile(result.out)
        same_user = ("--cap-drop", "all", "--user", USER)
        result = self.assert_ran(self.beside(name, "stats", "--full", 1, options=same_user))
        self.assertRegex(result.text, r"(?m)^Allocated: \d{8}")
        self.assert_failed(self.beside(name, "on", 1), lib.NOT_PERMITTED, "cause:", "another user")
        self.assertEqual(self.answers(pid, "dbsize"), "100000")
        self.assert_listed(name, pid)
        self.assert_chosen(name, pid, only_ptrace)

    def assert_listed(self, name, pid):
        """`ps` on the host names the container as the engine does. Processes of other tests can
        block it; then the list is not complete, and ps is run again."""
        row = lambda: re.search(r"(?m)^ *%d .*$" % pid, lib.run_tool("ps").text)
        found = lib.wait_until(row, timeout=120)
        self.assertTrue(found, "it is not listed")
        line = found[0]
        self.assertIn("podman/" + self.podman.inspect(name)["Id"][:12], line)
        self.assertEqual(line.split()[1:3], ["1", "redis-server"])

    def assert_chosen(self, name, pid, options):
        """--container with its id, from the host and from a sidecar."""
        whole = self.podman.inspect(name)["Id"]
        for words in (("--container", whole), ("--container", "podman/" + whole[:12]),
                      ("-n", "redis-server", "--container", whole[:12])):
            result = self.assert_ran(lib.run_tool("status", "--no-call", "--json", *words))
            told = json.loads(result.text)
            self.assertEqual((told["pid"], told["ns_pid"]), (pid, 1), words)
        result = self.assert_ran(
            self.beside(name, "on", "--container", whole[:12], options=options))
        self.assertIn("redis-server[1] ", result.err)
        result = self.beside(name, "on", "-n", "jeattach", options=options)
        self.assert_failed(result, lib.GONE, "no process with jemalloc matches -n jeattach")

    def test_paths(self):
        """A plain dump prints a path as the target sees it and one that opens from a sidecar."""
        name, pid = self.redis("--user", USER, "--cap-drop", "all")
        self.fill(pid)
        ptrace = ("--cap-drop", "all", "--cap-add", "SYS_PTRACE")
        result = self.assert_ran(self.beside(name, "dump", 1, options=ptrace))
        self.assertRegex(result.text, r"\A/proc/1/root/tmp/jeprof\.1\.\d+\.m\d+\.heap\n\Z")
        path = result.text.strip()
        self.assertIn("path in the target: " + path[len("/proc/1/root"):], result.err)
        report = self.assert_ran(self.beside(name, "report", path, options=ptrace))
        self.assertRegex(report.text, r"(?m)^sampled: ")
        with open("/proc/%d/root%s" % (pid, path[len("/proc/1/root"):]), "rb") as file:
            self.assert_redis_profile(file.read())

    def test_paused(self):
        name, pid = self.redis("--user", USER, "--cap-drop", "all")
        self.podman.checked("pause", name)
        try:
            result = lib.run_tool("on", "--call", pid, "--timeout", "1")
            self.assert_ran(lib.run_tool("on", "--no-call", pid))
        finally:
            self.podman.checked("unpause", name)
        self.assert_failed(result, lib.NO_SAFE_MOMENT, "frozen")
        self.assert_ran(lib.run_tool("off", "--call", pid))
        self.assertEqual(self.answers(pid, "ping"), "PONG")

    def test_user_namespace(self):
        name, pid = self.redis("--uidmap", "0:100000:65536", "--gidmap", "0:100000:65536",
                               "--cap-drop", "all")
        self.fill(pid)
        self.assert_redis_profile(self.assert_ran(lib.run_tool("dump", pid, "-o", "-")).out)
        shared = ("--userns", "container:" + name, "--cap-drop", "all", "--cap-add", "SYS_PTRACE")
        result = self.assert_ran(self.beside(name, "dump", 1, "-o", "-", options=shared))
        self.assert_redis_profile(result.out)
        self.assertEqual(self.answers(pid, "dbsize"), "100000")

    def test_rootless(self):
        """Rootless containers: their user owns the user namespace and is root in it."""
        self.podman = Podman(self.directory(), USER)
        self.addCleanup(self.podman.stop)
        for root in (self.redis_root, self.tool_root):
            give_away(root, USER)
        name, pid = self.redis()
        self.fill(pid)
        tool = shutil.copy(lib.TOOL, self.podman.directory)
        for command in ((tool, "dump", pid, "-o", "-"),
                        ("podman", "unshare", tool, "dump", pid, "-o", "-")):
            result = as_result(command, self.podman.as_user(*command))
            self.assert_redis_profile(self.assert_ran(result).out)
        result = self.assert_ran(self.beside(name, "dump", 1, "-o", "-"))
        self.assert_redis_profile(result.out)
        self.assertEqual(self.answers(pid, "dbsize"), "100000")


def give_away(root, user):
    for where, names, files in os.walk(root):
        for name in [""] + names + files:
            os.chown(os.path.join(where, name), user, user, follow_symlinks=False)


if __name__ == "__main__":
    lib.main()
