"""Shared by the tests of watch: a process that grows on request, and a watch over it."""

import json
import os
import random
import re
import shutil
import signal
import subprocess

import lib
from groups import MemoryGroup
from lib import GONE, OK, TOOL

MIB = 1 << 20
PATIENCE = 60  # seconds, for events that come soon on an idle machine
CONF = "prof:true,prof_active:%s,lg_prof_sample:12,dirty_decay_ms:0,muzzy_decay_ms:0"
NAME = re.compile(r"\A(.+)-(\d+)-(\d{8}T\d{6}Z)-(\d+)MiB\.watch(-\d+)?\.heap\Z")
CAP_IPC_LOCK = 14


class Grower:
    """A process whose memory grows on request (tests/victims/grower.c)."""

    def __init__(self, test, group=None, active=True, conf=None, program="grower"):
        env = lib.tool_environment()
        env["MALLOC_CONF"] = conf or CONF % ("true" if active else "false")
        self.process = test.process(
            [program if "/" in program else os.path.join(lib.VICTIMS, program)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=env, text=True,
            preexec_fn=group.enter if group else None,
        )
        self.pid = self.process.pid
        if self.process.stdout.readline() != "ready\n":
            raise AssertionError("the grower does not start")

    def order(self, words):
        self.process.stdin.write(words + "\n")
        self.process.stdin.flush()

    def answer(self):
        return self.process.stdout.readline()

    def tell(self, *words):
        self.order(" ".join(str(word) for word in words))
        if not self.answer():
            raise AssertionError("the grower has ended")

    def grow(self, mib):
        self.tell("grow", mib * MIB)

    def rss(self):
        return int(lib.read_text("/proc/%d/statm" % self.pid).split()[1]) * os.sysconf("SC_PAGESIZE")

    def end(self):
        self.process.kill()
        self.process.wait()


class Watch:
    """`jeattach watch --json`, whose events are read as they come."""

    def __init__(self, test, *words, directory=None, env=None, prepare=None):
        self.test = test
        self.directory = directory or test.directory()
        logs = test.directory()
        self.out, self.err = os.path.join(logs, "out"), os.path.join(logs, "err")
        argv = [TOOL, "watch", "--json", "-o", self.directory] + [str(word) for word in words]
        with open(self.out, "wb") as out, open(self.err, "wb") as err:
            self.process = test.process(
                argv, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                env=lib.tool_environment(env), preexec_fn=prepare,
            )
        self.pid = self.process.pid

    def events(self, kind=None):
        lines = lib.read_text(self.out).splitlines(True)
        found = [json.loads(line) for line in lines if line.endswith("\n")]
        return [event for event in found if kind in (None, event.get("event"))]

    def said(self):
        return "%s\n%s" % (lib.read_text(self.out), lib.read_text(self.err))

    def wait_for(self, kind, count=1):
        """Returns the events of a kind, once there are `count` of them."""
        lib.wait_until(
            lambda: len(self.events(kind)) >= count or self.process.poll() is not None, PATIENCE
        )
        found = self.events(kind)
        self.test.assertGreaterEqual(len(found), count, "%s: %s" % (kind, self.said()))
        return found

    def started(self):
        return self.wait_for("watching")[-1]

    def end(self, number=signal.SIGTERM):
        """Ends it by a signal; returns the exit code."""
        self.process.send_signal(number)
        return self.code()

    def code(self):
        code = self.process.wait(PATIENCE)
        said = self.said()
        if "Sanitizer" in said or "runtime error:" in said:
            raise AssertionError("a sanitizer reports: %s" % said)
        return code

    def files(self):
        return sorted(os.listdir(self.directory))


class WatchTest(lib.TestCase):
    groups = 0

    def uncached_file(self, mib):
        """Its pages then count for the process that reads them first."""
        path = os.path.join(self.directory(), "file")
        with open(path, "wb") as file:
            file.write(bytes(mib * MIB))
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        return path

    def group(self, limit=None, parent=None, name=None):
        WatchTest.groups += 1
        name = name or "jeattach-test-%d-%d" % (os.getpid(), WatchTest.groups)
        group = MemoryGroup(name, limit, parent)
        self.addCleanup(group.remove)
        return group

    def grower(self, **options):
        return Grower(self, **options)

    def watch(self, *words, **options):
        return Watch(self, *words, **options)

    def assert_complete(self, watch):
        """Only complete profiles, with the names in the events. Returns the names."""
        told = [event["path"] for event in watch.events("profile")]
        self.assertEqual(sorted(told), [os.path.join(watch.directory, n) for n in watch.files()])
        for event in watch.events("profile"):
            with open(event["path"], "rb") as file:
                data = file.read()
            self.assertEqual(len(data), event["bytes"])
            self.assert_profile(data, stacks=0 if event["empty"] else 1)
        return watch.files()

    def assert_fired(self, event, *rules):
        """Only these rules fired, each of which was true."""
        self.assertEqual([rule["rule"] for rule in event["rules"]], list(rules), event)
        for rule in event["rules"]:
            if "value" in rule:
                self.assertGreater(rule["value"], rule["threshold"], event)

    def program(self):
        """A grower with a name of its own."""
        path = os.path.join(self.directory(), "grow%d" % os.getpid())
        shutil.copy(os.path.join(lib.VICTIMS, "grower"), path)
        return path

    def watched(self, watch, grower, count):
        self.assertEqual(watch.wait_for("watching", count)[-1]["pid"], grower.pid)

    def leak_all(self, count, rates):
        """Starts `count` that grow until the kernel ends them at their limit; almost all leave a
        profile."""
        limit = 48 * MIB
        missing, most = [], 2
        runs = []
        for _ in range(count):
            grower = self.grower(group=self.group(limit))
            grower.grow(34)
            watch = self.watch(
                grower.pid, "--when", "cgroup>90%", "--when", "rss>90%", "--count", most,
                "--cooldown", "10m")
            runs.append((grower, watch))
        for _, watch in runs:
            watch.started()
        for grower, _ in runs:
            grower.order("leak %d %d" % (80 * MIB, random.uniform(*rates) * MIB))
        for grower, watch in runs:
            self.assertEqual(grower.process.wait(PATIENCE * 4), -signal.SIGKILL)
            self.assertIn(watch.code(), (GONE, OK), watch.said())
            self.assertLessEqual(len(self.assert_complete(watch)), most)
            near = [
                rule["value"] for event in watch.events("profile") for rule in event["rules"]
                if 0.9 * limit <= rule["value"] <= limit
            ]
            if not near:
                missing.append(watch.said())
        print("%d of %d left a profile within 10 %% of the limit" % (count - len(missing), count))
        self.assertLessEqual(len(missing), max(1, count // 20), missing[:3])
