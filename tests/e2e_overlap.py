"""Runs that sample one process at the same time, and processes that it forks meanwhile: when all
is over, prof.active is false in the process, its children that sample on are named, and nobody's
sampling ended early."""

import contextlib
import fcntl
import json
import os
import re
import shutil
import signal
import struct
import subprocess

import allocators
import lib
import releases
from watching import MIB, PATIENCE, WatchTest

ACTIVE = "prof:true,prof_active:%s,lg_prof_sample:12"
NOBODY = 65534
# Each verb that switches profiling on for a while, with the way in which it does it.
VERBS = (
    ("record", "-d", "1h", "-o", "/dev/null", "--force"),
    ("record", "-d", "1h", "-o", "/dev/null", "--force", "--call"),
    ("leak", "-d", "1h"),
    ("watch", "--on", "--when", "rss>90%", "-o", "."),
)


class Family:
    """tests/victims/forker.c: a process that forks on request."""

    def __init__(self, test, version="5.3.0", user=None):
        self.directory = test.directory()
        report = os.path.join(self.directory, "report")
        program = os.path.join(lib.VICTIMS, "forker")
        with open(report, "wb") as file:
            file.truncate(4096)
        if user:
            os.chmod(self.directory, 0o755)
            os.chown(report, user, user)
            program = shutil.copy(program, self.directory)
        argv, env = releases.command(version, [program, report, "asked"])
        if user:  # that user may not be able to read the directories of the others
            env["LD_PRELOAD"] = shutil.copy(env["LD_PRELOAD"], self.directory)
        self.process = test.process(
            argv, env=lib.tool_environment(dict(env, MALLOC_CONF=ACTIVE % "false")),
            cwd=self.directory, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            **({"user": user, "group": user, "extra_groups": []} if user else {}))
        self.pid = self.process.pid
        if not lib.wait_until(lambda: any(lib.read_bytes(report)[:8]), PATIENCE):
            raise AssertionError("the forker does not start")

    def fork(self, kind="\n"):
        self.process.stdin.write(kind.encode())
        self.process.stdin.flush()
        return int(self.process.stdout.readline())


class TestCase(allocators.TestCase, WatchTest):
    def active(self, pid):
        return json.loads(self.assert_ran(lib.run_tool("status", pid, "--json")).text)["prof.active"]

    def assert_active(self, wanted, *pids):
        self.assertEqual({pid: self.active(pid) for pid in pids}, dict.fromkeys(pids, wanted))

    def begin(self, pid, verb, *words, tool=lib.TOOL, **options):
        """Starts the tool; returns when it samples."""
        tool = self.process(
            [tool, verb, str(pid), "-v", *words], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=self.directory(),
            env=lib.tool_environment(), **options)
        tool.said = b""
        while b"until the end" not in tool.said and b"profiling switched on" not in tool.said:
            line = tool.stderr.readline()
            tool.said += line
            self.assertTrue(line, tool.said)
        return tool

    def end(self, tool, code=lib.INTERRUPTED, number=signal.SIGINT):
        """Ends it by a signal; returns what it printed."""
        tool.send_signal(number)
        out, err = tool.communicate(timeout=PATIENCE)
        said = (tool.said + err).decode()
        self.assertEqual(tool.returncode, code, said)
        return out, said


def private(pid):
    """Bytes that no other process has mapped."""
    text = lib.read_text("/proc/%d/smaps_rollup" % pid)
    return sum(int(kib) << 10 for kib in re.findall(r"^Private_\w+: +(\d+) kB$", text, re.M))


class Children(TestCase):
    """They keep what fork(2) has copied, and the end of a run writes nothing in them."""

    def told(self, said, parent, words="is"):
        """Returns the words of the command that switches the children off."""
        match = re.search(r"prof\.active %s true in \d+ process(?:es)? that %d forked meanwhile; to "
                          r"switch (?:it|them) off: jeattach (off .*)\n" % (words, parent), said)
        self.assertTrue(match, said)
        self.assertEqual(said.count("forked meanwhile"), 1)
        return match[1].split()

    def check(self, words, version="5.3.0"):
        family = Family(self, version)
        before = family.fork()
        tool = self.begin(family.pid, *words)
        self.assert_active(True, family.pid)
        born = [family.fork(kind) for kind in "\n\ngo"]
        own = [family.fork("x")] if version == "5.3.0" else []  # 5.3.1 has a loader of its own
        _, said = self.end(tool)
        self.assert_active(False, family.pid, before)
        self.assert_active(True, *born, *own)
        command = self.told(said, family.pid)
        # And the child whose child it is.
        self.assertEqual(len(command), 1 + 5, command)
        self.assertLess(set(born), {int(word) for word in command[1:]})
        self.assert_ran(lib.run_tool(*command))
        self.assert_active(False, family.pid, before, *born)
        self.assert_active(True, *own)

    def test_each_verb(self):
        for words in VERBS:
            with self.subTest(words=words):
                self.check(words)

    def test_releases(self):
        """5.2.1 is switched on by a call, and off by its byte."""
        for version in ("5.2.1", "5.3.1"):
            with self.subTest(version=version):
                self.check(VERBS[0], version)

    def test_json(self):
        family = Family(self)
        tool = self.begin(family.pid, "record", "-d", "1h", "-o", "x", "--json")
        born = sorted(family.fork() for _ in range(2))
        out, _ = self.end(tool)
        told = json.loads(out)
        self.assertEqual((told["children_left"], told["left_on"]), (born, False))
        self.assertNotIn("children_off", told)

    def test_many_children(self):
        """One command for all, where their pids would make a line that nobody reads."""
        family = Family(self)
        tool = self.begin(family.pid, *VERBS[0])
        born = [family.fork() for _ in range(230)]
        _, said = self.end(tool)
        command = self.told(said, family.pid)
        self.assertEqual(command, ["off", "-s", "--all", str(family.pid)])
        self.assert_active(True, born[0], born[-1])
        self.assert_ran(lib.run_tool(*command))
        self.assert_active(False, family.pid, *born[::20])

    def test_nothing_is_copied(self):
        """A child shares its pages with the process. The proof of the byte in each copied ten."""
        family = Family(self)
        tool = self.begin(family.pid, *VERBS[0])
        born = [family.fork() for _ in range(20)]
        own = lambda: sum(private(pid) for pid in born)
        self.assertTrue(lib.wait_until(lambda: own() == own(), pause=0.05))
        before = own()
        _, said = self.end(tool)
        self.assertEqual(len(self.told(said, family.pid)), 1 + len(born))
        self.assertLess(own() - before, len(born) * 4096)

    def test_switched_off_in_the_child(self):
        family = Family(self)
        tool = self.begin(family.pid, *VERBS[0])
        off, on = family.fork(), family.fork()
        self.assert_ran(lib.run_tool("off", off))
        _, said = self.end(tool)
        self.assertEqual(self.told(said, family.pid), ["off", str(on)])

    def test_true_before(self):
        """Then nothing is switched, neither in the process nor in its children."""
        family = Family(self)
        self.assert_ran(lib.run_tool("on", family.pid))
        tool = self.begin(family.pid, *VERBS[0])
        born = family.fork()
        _, said = self.end(tool)
        self.assert_active(True, family.pid, born)
        self.assertNotIn("meanwhile", said)

    def test_target_ends(self):
        """Its children live on."""
        family = Family(self)
        tool = self.begin(family.pid, *VERBS[0])
        born = [family.fork("o"), family.fork("o")]
        # Their parent's end of the pipe would end them.
        os.kill(family.pid, signal.SIGKILL)
        family.process.wait()
        _, err = tool.communicate(timeout=PATIENCE)
        self.assertEqual(tool.returncode, lib.GONE, err)
        command = self.told(err.decode(), family.pid)
        self.assertEqual(sorted(command[1:]), sorted(map(str, born)))
        self.assert_ran(lib.run_tool(*command))
        self.assert_active(False, *born)

    def test_vfork(self):
        """Its memory is its parent's, in which another run samples."""
        for order in (0, 1):
            with self.subTest(order=order):
                family = Family(self)
                runs = [self.begin(family.pid, *VERBS[0]) for _ in range(2)]
                family.fork("v")
                _, said = self.end(runs[order])
                self.assertNotIn("meanwhile", said)
                self.assertIn("prof.active stays true for another run", said)
                self.assert_active(True, family.pid)
                _, said = self.end(runs[1 - order])
                self.assertNotIn("meanwhile", said)
                self.assertNotIn("another program", said)
                self.assert_active(False, family.pid)

    def test_unreadable(self):
        """One that may not be read is not named: nobody knows whether it samples."""
        lib.require_root()
        family = Family(self, user=NOBODY)
        tool = self.begin(family.pid, *VERBS[0], tool=shutil.copy(lib.TOOL, family.directory),
                          user=NOBODY, group=NOBODY, extra_groups=[])
        good, hidden = family.fork(), family.fork("d")
        _, said = self.end(tool)
        self.assert_active(False, family.pid)
        self.assert_active(True, good, hidden)
        self.assertEqual(self.told(said, family.pid), ["off", str(good)])


F_OFD_SETLK = 37


def forge(pid):
    """Takes the locks by which runs know of each other, in all ways that there are."""
    lock = struct.pack("hhqqi", fcntl.F_RDLCK, 0, 0, 0, 0)
    for name in ("maps", "numa_maps", "auxv"):
        for command in (fcntl.F_SETLK, F_OFD_SETLK):
            with contextlib.suppress(FileNotFoundError):
                file = os.open("/proc/%d/%s" % (pid, name), os.O_RDONLY)
                fcntl.fcntl(file, command, lock)
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


class Strangers(TestCase):
    """The target's user can lock the files by which runs know of each other."""

    def locked(self):
        lib.require_root()
        family = Family(self, user=NOBODY)
        reads, writes = os.pipe()
        forger = os.fork()
        if forger == 0:
            try:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
                forge(family.pid)
                os.write(writes, b"l")
                signal.pause()
            finally:
                os._exit(1)
        self.addCleanup(lambda: (os.kill(forger, signal.SIGKILL), os.waitpid(forger, 0)))
        os.close(writes)
        with open(reads, "rb") as pipe:
            self.assertEqual(pipe.read(1), b"l")
        return family

    def test_forged_locks(self):
        family = self.locked()
        result = lib.run_tool("record", "-d", "500ms", "--timeout", "1s", "-o", "/dev/null",
                              "--force", family.pid)
        self.assert_ran(result)
        self.assertNotIn("another run", result.err)
        self.assertLess(result.seconds, 10)
        self.assert_active(False, family.pid)

    def test_forged_locks_and_ctrl_c(self):
        family = self.locked()
        tool = self.begin(family.pid, *VERBS[0])
        _, said = self.end(tool)
        self.assertNotIn("another run", said)
        self.assert_active(False, family.pid)


class Overlap(TestCase):
    def target(self):
        return self.allocator("5.3.0", conf=ACTIVE % "false")

    def assert_last_restores(self, pid, one, other):
        _, said = self.end(one)
        self.assertNotIn("by another program", said)
        self.assert_active(True, pid)
        _, said = self.end(other)
        self.assertNotIn("by another program", said)
        self.assert_active(False, pid)

    def test_both_orders(self):
        """Each verb beside a record: the first one to end leaves it on, the last one switches off.
        """
        for words in VERBS:
            for first, second, ends in ((words, VERBS[0], 0), (words, VERBS[0], 1),
                                        (VERBS[0], words, 0), (VERBS[0], words, 1)):
                with self.subTest(first=first, second=second, ends=ends):
                    allocator = self.target()
                    runs = [self.begin(allocator.pid, *each) for each in (first, second)]
                    self.assert_last_restores(allocator.pid, runs[ends], runs[1 - ends])
                    self.assert_well(allocator)
                    allocator.stop()

    def test_words(self):
        allocator = self.target()
        one = self.begin(allocator.pid, "record", "-d", "1h", "-o", "x", "--json")
        other = self.begin(allocator.pid, "leak", "-d", "1h", "--json")
        self.assertIn(b"because of another run of jeattach", other.said)
        out, said = self.end(one)
        self.assertIn("prof.active stays true for another run of jeattach", said)
        told = json.loads(out)
        self.assertEqual((told["old"], told["new"], told["left_on"], told["toggled_by_other"]),
                         (False, True, True, False))
        out, said = self.end(other)
        self.assertIn("prof.active is false again", said)
        told = json.loads(out)
        self.assertEqual((told["old"], told["new"], told["left_on"], told["toggled_by_other"]),
                         (False, False, False, False))

    def test_samples_go_on(self):
        """The longer record has what was allocated after the end of the shorter one."""
        for order in (0, 1):
            with self.subTest(order=order):
                allocator = self.target()
                place = self.directory()
                paths = [os.path.join(place, name) for name in "ab"]
                runs = [self.begin(allocator.pid, "record", "-d", "1h", "-o", path)
                        for path in paths]
                self.end(runs[order])
                allocator.ask("work 500")
                self.end(runs[1 - order])
                objects = [int(re.search(rb"(?m)^  t\*: (\d+):", lib.read_bytes(path))[1])
                           for path in paths]
                self.assertGreater(objects[1 - order], objects[order] + 10)
                allocator.stop()

    def test_killed(self):
        """What a killed run owed, the others do."""
        for killed in (0, 1):
            with self.subTest(killed=killed):
                allocator = self.target()
                runs = [self.begin(allocator.pid, *VERBS[0]) for _ in range(2)]
                runs[killed].kill()
                runs[killed].wait()
                self.assert_active(True, allocator.pid)
                _, said = self.end(runs[1 - killed])
                self.assertIn("prof.active is false again", said)
                self.assert_active(False, allocator.pid)
                allocator.stop()

    def test_both_true_before(self):
        allocator = self.target()
        self.assert_ran(lib.run_tool("on", allocator.pid))
        runs = [self.begin(allocator.pid, *VERBS[0]) for _ in range(2)]
        for run in runs:
            _, said = self.end(run)
            self.assertIn("prof.active was true before and stays true", said)
            self.assert_active(True, allocator.pid)

    def test_many(self):
        """Ten begin and end at the same time, again and again."""
        allocator = self.target()
        for _ in range(3):
            runs = [self.process([lib.TOOL, "record", str(allocator.pid), "-d", "100ms", "-o", "-"],
                                 stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                 stderr=subprocess.PIPE, env=lib.tool_environment())
                    for _ in range(10)]
            for run in runs:
                _, err = run.communicate(timeout=PATIENCE)
                self.assertEqual(run.returncode, lib.OK, err)
                self.assertNotIn(b"by another program", err)
            self.assert_active(False, allocator.pid)
        self.assert_well(allocator)

    def test_settle(self):
        """leak --settle does not end the sampling of the other run."""
        allocator = self.target()
        other = self.begin(allocator.pid, *VERBS[0])
        result = self.assert_ran(lib.run_tool("leak", "-d", "100ms", "--settle", "100ms",
                                              allocator.pid))
        self.assertIn("what is allocated while it settles is in the result", result.err)
        self.assertIn("prof.active stays true for another run of jeattach, which", result.err)
        self.assert_active(True, allocator.pid)
        _, said = self.end(other)
        self.assertNotIn("by another program", said)
        self.assert_active(False, allocator.pid)

    def test_operator(self):
        """`off` and `on` say that a run is at work."""
        allocator = self.target()
        run = self.begin(allocator.pid, *VERBS[0])
        result = self.assert_ran(lib.run_tool("on", allocator.pid))
        self.assertIn("another run of jeattach samples this process, and switches", result.err)
        result = self.assert_ran(lib.run_tool("off", allocator.pid))
        self.assertIn("another run of jeattach samples this process", result.err)
        _, said = self.end(run)
        self.assertIn("was switched off by another program", said)
        self.assert_active(False, allocator.pid)
        result = self.assert_ran(lib.run_tool("off", allocator.pid))
        self.assertNotIn("another run", result.err)


class Watch(TestCase):
    """watch --on looks at prof.active, and restores it."""

    def watched(self, *words):
        grower = self.grower(active=False)
        watch = self.watch(grower.pid, "--on", *words)
        self.assertTrue(watch.started()["switched_on"])
        return grower, watch

    def test_switched_off(self):
        grower, watch = self.watched("--when", "rss>40M")
        for _ in range(2):
            self.assert_ran(lib.run_tool("off", grower.pid))
            self.assertTrue(lib.wait_until(lambda: self.active(grower.pid), PATIENCE))
        self.assertEqual(watch.wait_for("restored")[0]["count"], 1)
        grower.grow(60)
        self.assertFalse(watch.wait_for("profile")[0]["empty"])
        self.assertEqual(watch.end(), lib.INTERRUPTED)
        self.assert_active(False, grower.pid)

    def test_watch_true_before(self):
        """Who switches it off meanwhile finds it off afterwards."""
        grower = self.grower(active=True)
        watch = self.watch(grower.pid, "--on", "--when", "rss>9G")
        self.assertFalse(watch.started()["switched_on"])
        self.assert_ran(lib.run_tool("off", grower.pid))
        watch.wait_for("restored")
        self.assert_active(True, grower.pid)
        self.assertEqual(watch.end(), lib.INTERRUPTED)
        self.assert_active(False, grower.pid)

    def test_by_call(self):
        """Where only a call shows it, each profile restores it for the next one."""
        grower, watch = self.watched("--when", "rss>20M", "--cooldown", "1ms", "--count", "1000000",
                                     "--call")
        self.assert_ran(lib.run_tool("off", grower.pid))
        grower.grow(30)
        watch.wait_for("restored")
        self.assertTrue(lib.wait_until(lambda: self.active(grower.pid), PATIENCE))
        grower.grow(10)
        self.assertTrue(lib.wait_until(
            lambda: not watch.events("profile")[-1]["empty"], PATIENCE))
        self.assertEqual(watch.end(), lib.INTERRUPTED)
        self.assert_active(False, grower.pid)

    def test_other_mount_of_proc(self):
        """A run that sees the process through another mount of /proc is not known: its end
        switches profiling off, and the watch on again."""
        grower = self.grower(active=False)
        script = "mount -t proc proc /proc && exec \"$@\""
        record = subprocess.Popen(
            ["unshare", "--mount", "--propagation", "private", "sh", "-c", script, "sh", lib.TOOL,
             "record", str(grower.pid), "-v", "-d", "1h", "-o", "/dev/null", "--force"],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
            env=lib.tool_environment())
        self.addCleanup(lib.end_process, record)
        said = b""
        while b"until the end" not in said:
            line = record.stderr.readline()
            said += line
            if not line:
                self.skipTest("no other mount of /proc: %s" % said.decode())
        watch = self.watch(grower.pid, "--on", "--when", "rss>40M")
        watch.started()
        record.send_signal(signal.SIGINT)
        _, err = record.communicate(timeout=PATIENCE)
        self.assertIn(b"prof.active is false again", err)
        watch.wait_for("restored")
        grower.grow(60)
        self.assertFalse(watch.wait_for("profile")[0]["empty"])
        self.assertEqual(watch.end(), lib.INTERRUPTED)
        self.assert_active(False, grower.pid)

    def test_profile_before_the_end(self):
        """A record ends below the watch; then the process reaches its limit and is killed."""
        grower = self.grower(active=False, group=self.group(64 * MIB))
        record = self.begin(grower.pid, *VERBS[0])
        watch = self.watch(grower.pid, "--on", "--when", "rss>60%", "--count", "1")
        watch.started()
        self.end(record)
        grower.order("leak %d %d" % (100 * MIB, 40 * MIB))
        self.assertFalse(watch.wait_for("profile")[0]["empty"])
        self.assertEqual(grower.process.wait(PATIENCE), -signal.SIGKILL)


if __name__ == "__main__":
    lib.main()
