"""jeattach record: it restores prof.active whatever happens, and leaves nothing else behind."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import subprocess

import allocators
import lib

# The number of moments at which it is interrupted.
MOMENTS = 44 * (10 if lib.LONG else 1)
WAITING = 60


class TestCase(lib.TestCase):
    def tool(self, *words, **options):
        """Runs it; again if the target had no CPU to stop on, which is not what is tested."""
        for _ in range(10):
            result = lib.run_tool(*words, **options)
            if result.code != lib.NO_SAFE_MOMENT or "did not stop in time" not in result.err:
                break
        return result

    def use(self, verb, pid, *words):
        """Runs the verb; again while the tool under test stops a thread of the process."""
        results = []

        def once():
            results.append(self.tool(verb, "-q", pid, *words))
            return results[-1].code != lib.NOT_PERMITTED

        lib.wait_until(once, 30)
        return self.assert_ran(results[-1])

    def active(self, pid):
        result = self.use("mallctl", pid, "prof.active")
        return {"prof.active = true\n": True, "prof.active = false\n": False}[result.text]

    def assert_active(self, pid, wanted, *more):
        self.assertIs(self.active(pid), wanted, more)

    def start(self, *words, directory=None, **options):
        """The tool in the background; it ends with the test."""
        return self.process(
            [lib.TOOL] + [str(word) for word in words],
            stdin=subprocess.DEVNULL,
            stdout=options.pop("stdout", subprocess.PIPE),
            stderr=subprocess.PIPE,
            env=lib.tool_environment(),
            cwd=directory,
            bufsize=0,  # communicate() would lose what readline() has read ahead
            **options,
        )

    def start_recording(self, victim, *words, **options):
        """Returns when it waits: profiling is on, and no thread is stopped."""
        return self.start_again("record", victim.pid, "-d", "1h", "-v", *words, **options)

    def start_again(self, *words, **options):
        for _ in range(10):
            tool = self.start(*words, **options)
            if self.active_after(tool):
                return tool
            if b"did not stop in time" not in self.first_lines:
                break
        raise AssertionError("it does not begin: %r" % self.first_lines)

    def active_after(self, tool):
        """Reads stderr up to the message of -v about the start."""
        self.first_lines = b""
        while True:
            line = tool.stderr.readline()
            self.first_lines += line
            if b"until the end" in line:
                return True
            if not line:
                return False

    def end(self, tool, timeout=WAITING):
        out, err = tool.communicate(timeout=timeout)
        return tool.returncode, out or b"", self.first_lines.decode() + err.decode()

    def read(self, path):
        with open(path, "rb") as file:
            return file.read()


class Record(TestCase):
    def test_profile(self):
        """Former state, dump, former state; no file on the target's side."""
        read = (r"profile read from memory in .*: \d+ stacks(?:, \d+ left out that changed during the read)?, "
                r"\d+ threads?; no thread was stopped\n\Z")  # the victim allocates meanwhile
        for way, said in (("--call", r"a thread stopped 5 times, .* at most"), ("--no-call", read)):
            with self.subTest(way=way):
                self.assert_recorded(way, said)

    def assert_recorded(self, way, said):
        victim = self.victim("malloc")
        place = self.directory()
        path = os.path.join(place, "x.heap")
        result = self.assert_ran(self.tool("record", way, victim.pid, "-d", "300ms", "-o", path))
        self.assertEqual(result.text, path + "\n")
        self.assert_profile(self.read(path))
        self.assertEqual(os.listdir(place), ["x.heap"])
        self.assertEqual(victim.new_files(), [])
        self.assertRegex(result.err, r"sampled for \d+(\.\d+)? m?s; prof\.active is false again")
        self.assertRegex(result.err, said)
        self.assert_active(victim.pid, False)
        self.assert_unharmed(victim, slow=True)

    def test_target_is_as_it_was(self):
        victim = self.victim()
        before = lib.snapshot(victim.pid)
        for way in ("--call", "--no-call"):
            words = ("record", way, victim.pid, "-d", "50ms", "-o", "/dev/null")
            self.assert_ran(self.tool(*words))
            self.assertEqual(lib.snapshot_differences(victim.pid, before), [])
        self.assert_active(victim.pid, False)
        self.assert_unharmed(victim, slow=True)

    def test_default_name(self):
        victim = self.victim("malloc")
        place = self.directory()
        for number in range(2):
            result = self.assert_ran(
                self.tool("record", victim.pid, "-d", "50ms", cwd=place)
            )
            name = result.text.rstrip("\n")
            self.assertRegex(name, r"^victim-%d-\d{8}T\d{6}Z-\d+MiB(-1)?\.heap$" % victim.pid)
            self.assert_profile(self.read(os.path.join(place, name)))
        self.assertEqual(len(os.listdir(place)), 2)

    def test_directory(self):
        victim = self.victim("malloc")
        place = self.directory()
        words = ("record", victim.pid, "-d", "20ms", "-o", place, "-f", "folded")
        path = self.assert_ran(self.tool(*words)).text.rstrip("\n")
        self.assertEqual(os.path.dirname(path), place)
        self.assertRegex(path, r"/victim-%d-.*\.folded$" % victim.pid)

    def test_active_before(self):
        """Profiling that was active before stays active."""
        victim = self.victim("malloc")
        self.use("on", victim.pid)
        result = self.assert_ran(
            self.tool("record", victim.pid, "-d", "50ms", "-o", "-", "-f", "text")
        )
        self.assertIn("prof.active was true before and stays true", result.err)
        self.assertIn("\nsampled: ", result.text)
        self.assert_active(victim.pid, True)

    def test_json(self):
        victim = self.victim("malloc")
        for way, word, holds in (("--call", "call", 5), ("--no-call", "memory", 0)):
            path = os.path.join(self.directory(), "x.html")
            result = self.tool("record", way, victim.pid, "-d", "50ms", "-o", path, "--json")
            told = json.loads(self.assert_ran(result).text)
            self.assertEqual((told["old"], told["new"], told["interrupted"]),
                             (False, False, False))
            self.assertEqual([p["path"] for p in told["profiles"]], [path])
            self.assertGreaterEqual(told["sampled_ns"], 50 * 10**6)
            self.assertEqual((told["pid"], told["holds"], told["way"]), (victim.pid, holds, word))
            self.assertIn(b"<script>", self.read(path))

    def test_usage(self):
        victim = self.victim()
        place = self.directory()
        cases = (
            ("-d", "0"),
            ("-d", "soon"),
            ("--count", "3"),
            ("--keep", "3"),
            ("--every", "1s", "--count", "0"),
            ("--every", "1s", "-o", "-"),
            ("--every-bytes", "1G", "-o", "-"),
            ("--every-bytes", "0"),
            ("--every-bytes", "much"),
            ("--every-bytes", "1G", "--every", "1s"),
            ("--every-bytes", "1G", "--on-new-peak"),
            ("--every", "1s", "--step", "3"),
            ("-o", "%x.heap"),
            ("-o", "%t/x.heap"),
            ("--settle", "1s"),
        )
        for words in cases:
            with self.subTest(words=words):
                self.assert_failed(
                    self.tool("record", victim.pid, *words, cwd=place), lib.USAGE
                )
        self.assertEqual(os.listdir(place), [])
        self.assert_active(victim.pid, False)

    def test_existing_file(self):
        """It is refused before the target is touched."""
        victim = self.victim()
        path = os.path.join(self.directory(), "x.heap")
        with open(path, "w") as file:
            file.write("theirs")
        result = self.tool("record", victim.pid, "-d", "1h", "-o", path)
        self.assert_failed(result, lib.OUTPUT_FAILED, path, "EEXIST")
        self.assertNotIn("held", result.err)
        self.assertEqual(self.read(path), b"theirs")

    def test_existing_file_meanwhile(self):
        victim = self.victim("malloc")
        place = self.directory()
        path = os.path.join(place, "x.heap")
        tool = self.start_recording(victim, "-o", path)
        with open(path, "w") as file:
            file.write("theirs")
        tool.send_signal(signal.SIGINT)
        code, out, err = self.end(tool)
        self.assertEqual(code, lib.INTERRUPTED, err)
        self.assertEqual(out.decode(), os.path.join(place, "x-1.heap") + "\n")
        self.assertEqual(self.read(path), b"theirs")
        self.assert_profile(self.read(os.path.join(place, "x-1.heap")))

    def test_no_profiling(self):
        victim = self.victim(conf="prof:false")
        place = self.directory()
        result = self.tool("record", victim.pid, "-d", "1h", cwd=place)
        self.assert_failed(result, lib.PROFILING_OFF, "opt.prof is false", "MALLOC_CONF=prof:true")
        self.assertEqual(os.listdir(place), [])

    def test_gone_before(self):
        self.assert_failed(self.tool("record", 2**22 - 1, "-o", "/dev/null"), lib.GONE)


class Threads(TestCase, allocators.TestCase):
    def test_threads_that_have_to_be_woken(self):
        """On 5.2.1 threads that have allocated before do not sample by themselves."""
        allocator = self.allocator("5.2.1", words=("--threads", 6))
        allocator.ask("work 1000")
        tool = self.start_recording(allocator, "-o", "-")
        allocator.ask("work 1000")
        tool.send_signal(signal.SIGINT)
        code, out, err = self.end(tool)
        self.assertEqual(code, lib.INTERRUPTED, err)
        head = out.decode(errors="replace").partition("\n@")[0]
        self.assertEqual(sum(int(n) > 0 for n in re.findall(r"(?m)^  t\d+: (\d+):", head)), 6)
        self.assert_active(allocator.pid, False)
        self.assert_well(allocator)

    def test_named_thread_ends(self):
        """The recording fails, and another thread restores prof.active."""
        allocator = self.allocator("5.3.0", words=("--threads", 1))
        tid = allocator.workers()["worker-0"]
        tool = self.start_recording(allocator, "--thread", tid, "-o", os.devnull)
        allocator.ask("leave")
        self.assertTrue(lib.wait_until(
            lambda: not os.path.exists("/proc/%d/task/%d" % (allocator.pid, tid))))
        tool.send_signal(signal.SIGINT)
        code, _, err = self.end(tool)
        self.assertEqual(code, lib.GONE, err)
        self.assertIn("no thread %d" % tid, err)
        self.assertIn("prof.active is false again", err)
        self.assert_active(allocator.pid, False)
        self.assertTrue(allocator.alive())


class Interrupted(TestCase):
    def storm(self, former, number, words):
        """Signals at random moments from the start on: before, during and after each stop of a
        thread."""
        victim = self.victim("nanosleep", ms=20)
        if former:
            self.use("on", victim.pid)
        place = self.directory()
        codes = []
        for _ in range(MOMENTS // 4):
            tool = self.start(
                "record", victim.pid, "-o", os.path.join(place, "x.heap"), *words
            )
            self.first_lines = b""
            with contextlib.suppress(subprocess.TimeoutExpired):
                tool.wait(random.uniform(0, random.choice((0.01, 0.05, 0.1, 0.2))))
            tool.send_signal(number)
            code, out, err = self.end(tool)
            codes.append(code)
            if code != lib.NO_SAFE_MOMENT or "did not stop in time" not in err:
                self.assertIn(code, (lib.OK, lib.INTERRUPTED, -number), err)
            self.assert_active(victim.pid, former, code, err)
            self.check_files(place, out.decode(), err)
        self.assertTrue(victim.wait_rounds(2), "the victim does not go on")
        self.assert_unharmed(victim, slow=True)
        return codes

    def check_files(self, place, out, err):
        """The files that it reported are complete, and there are no others."""
        names = sorted(os.listdir(place))
        self.assertEqual(names, [os.path.basename(path) for path in out.split()], err)
        for name in names:
            self.assert_profile(self.read(os.path.join(place, name)), 0)
            os.unlink(os.path.join(place, name))

    def test_ctrl_c(self):
        codes = self.storm(False, signal.SIGINT, ("-d", "1h"))
        self.assertIn(lib.INTERRUPTED, codes)

    def test_ctrl_c_active_before(self):
        codes = self.storm(True, signal.SIGINT, ("-d", "1h"))
        self.assertIn(lib.INTERRUPTED, codes)

    def test_terminated_at_the_end(self):
        """Interruptions near the moment at which it restores prof.active by itself."""
        self.storm(False, signal.SIGTERM, ("-d", "30ms"))

    def test_interrupted_calls(self):
        """The same, where each of them stops a thread."""
        self.storm(False, signal.SIGINT, ("-d", "1h", "--call"))
        self.storm(False, signal.SIGTERM, ("-d", "30ms", "--call"))

    def test_terminated_at_the_end_active_before(self):
        self.storm(True, signal.SIGTERM, ("-d", "30ms"))
        self.storm(True, signal.SIGTERM, ("-d", "30ms", "--call"))

    def test_partial_result(self):
        victim = self.victim("malloc")
        place = self.directory()
        tool = self.start_recording(victim, directory=place)
        victim.wait_rounds(5)
        self.assert_active(victim.pid, True)
        tool.send_signal(signal.SIGTERM)
        code, out, err = self.end(tool)
        self.assertEqual(code, lib.INTERRUPTED, err)
        self.assert_profile(self.read(os.path.join(place, out.decode().rstrip("\n"))))
        self.assertIn("interrupted; sampled for ", err)
        self.assert_active(victim.pid, False)

    def stopped(self, *words):
        """A recording whose target is stopped when it should end: the restoring has to wait."""
        victim = self.victim("malloc")
        place = self.directory()
        tool = self.start_recording(victim, *words, directory=place)
        self.addCleanup(self.go_on, victim)
        os.kill(victim.pid, signal.SIGSTOP)
        self.assertTrue(lib.wait_until(lambda: lib.state_of(victim.pid) == "T"))
        return victim, place, tool

    def go_on(self, victim):
        if victim.alive():
            os.kill(victim.pid, signal.SIGCONT)

    def read_until(self, tool, text):
        while True:
            line = tool.stderr.readline()
            self.first_lines += line
            if text in line:
                return
            self.assertTrue(line, self.first_lines)

    def test_stopped_at_the_end(self):
        """It keeps trying, and loses nothing."""
        victim, place, tool = self.stopped("--call")
        tool.send_signal(signal.SIGINT)
        self.read_until(tool, b"cannot be stopped yet, trying again: it is stopped by job control")
        self.go_on(victim)
        code, out, err = self.end(tool)
        self.assertEqual(code, lib.INTERRUPTED, err)
        self.assert_profile(self.read(os.path.join(place, out.decode().rstrip("\n"))))
        self.assert_active(victim.pid, False)

    def test_stopped_all_the_time(self):
        """Memory is read and written while it is stopped."""
        victim, place, tool = self.stopped()
        tool.send_signal(signal.SIGINT)
        code, out, err = self.end(tool)
        self.assertEqual(code, lib.INTERRUPTED, err)
        self.assertIn("prof.active is false again", err)
        self.assertIn("no thread was stopped", err)
        self.assert_profile(self.read(os.path.join(place, out.decode().rstrip("\n"))))
        self.assertEqual(lib.state_of(victim.pid), "T")
        self.go_on(victim)
        self.assert_active(victim.pid, False)
        self.assert_unharmed(victim, slow=True)

    def test_second_ctrl_c(self):
        """Without a profile, and at once: as soon as the target can be stopped again."""
        victim, place, tool = self.stopped("--call")
        tool.send_signal(signal.SIGINT)
        self.read_until(tool, b"cannot be stopped yet")
        tool.send_signal(signal.SIGINT)
        self.read_until(tool, b"prof.active is not back to false yet, trying again")
        self.go_on(victim)
        code, out, err = self.end(tool)
        self.assertEqual((code, out), (lib.INTERRUPTED, b""), err)
        self.assertEqual(os.listdir(place), [])
        self.assertIn("prof.active is false again", err)
        self.assert_active(victim.pid, False)

    def test_third_ctrl_c(self):
        """It leaves profiling on, and reports that."""
        victim, place, tool = self.stopped("--call")
        for text in (b"cannot be stopped yet", b"prof.active is not back to false yet"):
            tool.send_signal(signal.SIGINT)
            self.read_until(tool, text)
        tool.send_signal(signal.SIGINT)
        code, out, err = self.end(tool)
        self.assertEqual((code, out), (lib.INTERRUPTED, b""), err)
        self.assertIn("to switch it off: jeattach off %d" % victim.pid, err)
        self.go_on(victim)
        self.assert_active(victim.pid, True)
        self.use("off", victim.pid)


class Meanwhile(TestCase):
    """Other events during the recording."""

    def assert_last_one(self, place, out, err, stacks=0):
        """What was kept before the end is the only file, and there is none if nothing was."""
        if "is kept" in err:
            self.assertEqual(os.listdir(place), [out.decode().rstrip("\n")], err)
            self.assertIn("cut short: the profile was read ", err)
            self.assert_profile(self.read(os.path.join(place, os.listdir(place)[0])), stacks)
        else:
            self.assertEqual((out, os.listdir(place)), (b"", []), err)
            self.assertIn("are lost", err)

    def test_target_is_killed(self):
        """At once: tests/e2e_gone.py lets it live until a profile is kept."""
        victim = self.victim()
        place = self.directory()
        tool = self.start_recording(victim, "-v", directory=place)
        victim.process.kill()
        code, out, err = self.end(tool)
        self.assertEqual(code, lib.GONE, err)
        self.assertIn("has ended", err)
        self.assert_last_one(place, out, err)

    def test_target_is_killed_after_some(self):
        """Written profiles stay."""
        victim = self.victim("malloc")
        place = self.directory()
        tool = self.start_recording(victim, "--every", "20ms", "-o", place + "/%p.heap")
        self.assertTrue(lib.wait_until(lambda: len(os.listdir(place)) > 3, 30))
        victim.process.kill()
        code, out, err = self.end(tool)
        self.assertEqual(code, lib.GONE, err)
        names = [os.path.basename(path) for path in out.decode().split()]
        self.assertGreaterEqual(len(names), 3)
        self.assertEqual(sorted(names), sorted(os.listdir(place)))
        for name in names:
            self.assert_profile(self.read(os.path.join(place, name)), 0)

    def leaky(self):
        place = self.directory()
        process = self.process(
            [os.path.join(lib.VICTIMS, "leaky"), os.path.join(place, "counters")],
            env=lib.tool_environment({"MALLOC_CONF": lib.malloc_conf(place)}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def test_target_becomes_another_program(self):
        process = self.leaky()
        place = self.directory()
        tool = self.start_recording(process, "-v", directory=place)
        process.stdin.write(b"exec %s\n" % shutil.which("sleep").encode())
        process.stdin.flush()
        self.assertTrue(
            lib.wait_until(lambda: lib.status_fields(process.pid)["Name"] == "sleep", 10)
        )
        tool.send_signal(signal.SIGINT)
        code, out, err = self.end(tool)
        self.assertEqual(code, lib.GONE, err)
        self.assertIn("replaced itself with another program", err)
        self.assert_last_one(place, out, err)
        self.assertIsNone(process.poll())

    def test_switched_off_by_somebody_else(self):
        for former, words in ((False, ()), (True, ()), (False, ("--call",)), (True, ("--call",))):
            with self.subTest(former=former, words=words):
                victim = self.victim("malloc")
                if former:
                    self.use("on", victim.pid)
                tool = self.start_recording(victim, "--every", "200ms", *words,
                                            directory=self.directory())
                self.use("off", victim.pid)
                tool.send_signal(signal.SIGINT)
                code, out, err = self.end(tool)
                self.assertEqual(code, lib.INTERRUPTED, err)
                self.assertEqual(err.count("was switched off by another program"), 1, err)
                self.assertTrue(out)
                self.assert_active(victim.pid, False)

    def test_switched_on_by_somebody_else(self):
        """Off and on again: this cannot be noticed, and prof.active is restored."""
        victim = self.victim("malloc")
        tool = self.start_recording(victim, directory=self.directory())
        for verb in ("off", "on"):
            self.use(verb, victim.pid)
        tool.send_signal(signal.SIGINT)
        code, _, err = self.end(tool)
        self.assertEqual(code, lib.INTERRUPTED, err)
        self.assert_active(victim.pid, False)

    def test_the_tool_is_killed(self):
        """While it waits: the target continues, and profiling can be switched off."""
        for way in ("--call", "--no-call"):
            victim = self.victim()
            tool = self.start_recording(victim, way, directory=self.directory())
            tool.kill()
            tool.wait()
            self.assertIn(b"jeattach off %d" % victim.pid, self.first_lines)
            self.assert_active(victim.pid, True)
            self.use("off", victim.pid)
            self.assert_unharmed(victim, slow=True)


class Complete(TestCase):
    """The last profile is taken while prof.active is still true."""

    BLOCKS = 1000

    def reacting(self):
        """A process that frees its blocks when it sees that prof.active is false."""
        process = self.process(
            [os.path.join(lib.VICTIMS, "turnover"), "react", str(self.BLOCKS)],
            env=lib.tool_environment({"MALLOC_CONF": lib.malloc_conf(self.directory(), 0)}),
            stdout=subprocess.PIPE,
        )
        self.assertEqual(process.stdout.readline(), b"ready\n")
        return process

    def end_when_full(self, process, *words):
        tool = self.start_again(*words)
        self.assertEqual(process.stdout.readline(), b"full\n")
        tool.send_signal(signal.SIGINT)
        code, out, err = self.end(tool)
        self.assertEqual(code, lib.INTERRUPTED, err)
        self.assertEqual(process.stdout.readline(), b"empty\n")
        self.assert_active(process.pid, False)
        return out

    def test_nothing_is_freed_before_the_last_profile(self):
        for way in ("--call", "--no-call"):
            with self.subTest(way=way):
                process = self.reacting()
                words = ("record", way, "-v", "-d", "1h", "-o", "-", process.pid)
                text = self.end_when_full(process, *words).decode(errors="replace")
                counts = re.findall(r"(?m)^@.*\n  t\*: (\d+):", text)
                self.assertIn(str(self.BLOCKS), counts)

    def test_nothing_is_freed_before_the_second_profile(self):
        process = self.reacting()
        words = ("leak", "-v", "-d", "1h", "--json", process.pid)
        told = json.loads(self.end_when_full(process, *words))
        self.assertGreaterEqual(told["sampled_bytes"], self.BLOCKS * 100)


class Output(TestCase):
    def test_reader_that_is_slow(self):
        """Profiling is off again before the first byte is read."""
        victim = self.victim("malloc")
        tool = self.start("record", victim.pid, "-d", "100ms", "-o", "-", pipesize=4096)
        self.first_lines = b""
        out = tool.stdout.read(100)  # it has begun to write
        self.assert_active(victim.pid, False)
        self.assertIsNone(tool.poll(), "the profile fits into the pipe: the test shows nothing")
        self.assert_unharmed(victim, 5, slow=True)
        code, rest, err = self.end(tool)
        self.assertEqual(code, lib.OK, err)
        self.assert_profile(out + rest)

    def test_reader_that_leaves(self):
        """Silent, as other tools are; profiling is off again."""
        victim = self.victim("malloc")
        read_end, write_end = os.pipe()
        tool = self.start("record", victim.pid, "-d", "50ms", "-o", "-", stdout=write_end)
        self.first_lines = b""
        os.close(write_end)
        os.close(read_end)
        code, _, err = self.end(tool)
        self.assertEqual(code, lib.OUTPUT_FAILED, err)
        self.assertNotIn("cause:", err)
        self.assert_active(victim.pid, False)

    def test_interrupted_while_nobody_reads(self):
        victim = self.victim("malloc")
        tool = self.start("record", victim.pid, "-d", "50ms", "-o", "-", pipesize=4096)
        self.first_lines = b""
        self.assertTrue(tool.stdout.read(1))
        self.assert_active(victim.pid, False)
        tool.send_signal(signal.SIGINT)
        self.assertEqual(tool.wait(WAITING), lib.INTERRUPTED)

    def full_disk(self):
        place = self.directory()
        done = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=16k", "jeattach-test", place],
            capture_output=True, text=True,
        )
        if done.returncode:
            self.skipTest("no small file system can be mounted: %s" % done.stderr.strip())
        self.addCleanup(subprocess.run, ["umount", "-l", place])
        return place

    def test_full_disk(self):
        lib.require_root()
        victim = self.victim("malloc")
        place = self.full_disk()
        result = self.tool("record", victim.pid, "-d", "100ms", "-o", place + "/%n.heap")
        self.assert_failed(result, lib.OUTPUT_FAILED, "No space left on device")
        self.assertEqual(os.listdir(place), [])
        self.assert_active(victim.pid, False)

    def test_full_disk_in_a_series(self):
        """The series ends there, and the profiles written before stay."""
        lib.require_root()
        victim = self.victim("malloc")
        place = self.full_disk()
        with open(os.path.join(place, "most"), "wb") as file:
            with contextlib.suppress(OSError):
                file.write(bytes(16384))
        with contextlib.suppress(OSError):
            os.truncate(os.path.join(place, "most"), 8192)
        result = self.tool("record", victim.pid, "--every", "20ms", "--count", "100",
                              "-f", "folded", "-o", place + "/%t.folded")
        self.assertEqual(result.code, lib.OUTPUT_FAILED, result)
        names = [os.path.basename(path) for path in result.text.split()]
        self.assertEqual(sorted(os.listdir(place)), sorted(names + ["most"]))
        self.assert_active(victim.pid, False)


class Series(TestCase):
    def test_rotation(self):
        self.assert_rotated("--call", "stopped 13 times")

    def test_rotation_without_a_call(self):
        self.assert_rotated("--no-call", "profile read from memory 5 times")

    def assert_rotated(self, way, said):
        victim = self.victim("malloc")
        place = self.directory()
        words = ("--every", "20ms", "--count", "5", "--keep", "2", "-o", place + "/%n-%p-%t.heap")
        result = self.assert_ran(self.tool("record", way, victim.pid, *words))
        paths = result.text.split()
        self.assertEqual(len(paths), 5, result)
        self.assertEqual(len(set(paths)), 5)
        left = sorted(os.path.join(place, name) for name in os.listdir(place))
        self.assertEqual(left, sorted(paths[-2:]))
        for path in left:
            self.assertRegex(path, r"/victim-%d-\d{8}T\d{6}Z(-\d+)?\.heap$" % victim.pid)
            self.assert_profile(self.read(path))
        self.assertIn(said, result.err)
        self.assert_active(victim.pid, False)
        self.assert_unharmed(victim, slow=True)

    def test_rotation_leaves_what_is_not_its_own(self):
        """A profile that somebody has replaced since belongs to them."""
        victim = self.victim("malloc")
        place = self.directory()
        words = ("--every", "50ms", "--count", "12", "--keep", "3", "-o", place + "/x.heap")
        tool = self.start("record", victim.pid, *words)
        self.first_lines = b""
        first = tool.stdout.readline().decode().rstrip("\n")
        mine = os.path.join(place, "mine")
        with open(mine, "w") as file:
            file.write("mine")
        with contextlib.suppress(FileNotFoundError):
            os.rename(mine, first)
        code, out, err = self.end(tool)
        self.assertEqual(code, lib.OK, err)
        self.assertEqual(self.read(first), b"mine")
        self.assertEqual(len(os.listdir(place)), 4)

    def test_series_json(self):
        victim = self.victim("malloc")
        words = ("--every", "20ms", "-d", "50ms", "--keep", "1", "--json")
        place = self.directory()
        result = self.assert_ran(self.tool("record", victim.pid, *words, cwd=place))
        told = json.loads(result.text)
        kept = [p["path"] for p in told["profiles"] if not p["removed"]]
        self.assertEqual(kept, os.listdir(place))
        self.assertEqual(kept, [told["profiles"][-1]["path"]])
        self.assertLessEqual(len(told["profiles"]), 3)

    def test_series_without_a_limit(self):
        """It says so, and after the first profile what a day needs."""
        victim = self.victim("malloc")
        place = self.directory()
        for words, told in ((("--every", "200ms"), r"a profile every 200 ms, 432000 a day, until"),
                            (("--every-bytes", "1K"), r"a profile for every 1 KiB allocated, until")):
            tool = self.start("record", victim.pid, *words, "-o", place)
            self.first_lines = b""
            self.assertTrue(tool.stdout.readline())
            tool.send_signal(signal.SIGINT)
            code, _, err = self.end(tool)
            self.assertEqual(code, lib.INTERRUPTED, err)
            self.assertRegex(err, r"\Ajeattach: no limit given: %s Ctrl-C; --count N or -d D ends "
                             r"the series, --keep N keeps only the last N files\n" % told)
            day = r"(?m)^jeattach: the first profile has [\d.]+ KiB: about [\d.]+ [MGT]iB a day$"
            self.assertEqual(len(re.findall(day, err)), int("--every" in words), err)
        for words in (("--count", "2"), ("--keep", "2", "-d", "50ms"), ("-d", "50ms"), ("-q", "-d", "50ms")):
            result = self.assert_ran(self.tool("record", victim.pid, "--every", "20ms", *words,
                                               "-o", place))
            self.assertNotRegex(result.err, "no limit|a day")
        self.assert_unharmed(victim, slow=True)

    def test_series_interrupted(self):
        victim = self.victim("malloc")
        place = self.directory()
        tool = self.start_recording(victim, "--every", "1h", directory=place)
        tool.send_signal(signal.SIGINT)
        code, out, err = self.end(tool)
        self.assertEqual(code, lib.INTERRUPTED, err)
        self.assertEqual(os.listdir(place), out.decode().split())
        self.assert_active(victim.pid, False)


class Triggered(TestCase):
    """Series whose profiles are taken when the process has done something."""

    MIB = 1 << 20

    def grower(self):
        process = self.process(
            [os.path.join(lib.VICTIMS, "grower")],
            env=lib.tool_environment({"MALLOC_CONF": lib.malloc_conf(self.directory())}),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.assertEqual(process.stdout.readline(), b"ready\n")
        self.order(process, "grow %d" % (20 * self.MIB))
        self.assertTrue(lib.wait_until(lambda: self.rss(process) >= 20, 30))
        return process

    def test_full_disk_and_then_a_dump(self):
        """The message says how to get the samples, and that is so."""
        process = self.grower()
        before = self.assert_ran(self.tool("dump", "-o", "-", process.pid, "-f", "json"))
        self.assertEqual(json.loads(before.out)["total"], 0)
        for way in ("--no-call", "--call"):
            with self.subTest(way=way):
                tool = self.start_recording(process, way, "-o", "/dev/full")
                self.grow(process, 32)
                tool.send_signal(signal.SIGINT)
                code, _, err = self.end(tool)
                self.assertEqual(code, lib.OUTPUT_FAILED, err)
                fix = re.search(r"the process still has the samples: jeattach (dump -o )FILE (\d+)\n", err)
                self.assertTrue(fix, err)
                self.assertIn("prof.active is false again", err)
                words = [*fix[1].split(), "-", fix[2], "-f", "json"]
                told = json.loads(self.assert_ran(self.tool(*words)).out)
                self.assertGreater(told["total"], 4 * self.MIB)
                self.order(process, "drop")
        taken = os.path.join(self.directory(), "x.heap")
        open(taken, "w").close()
        for path in (taken, "/nosuchdir/x.heap"):  # nothing has been sampled
            err = self.tool("record", process.pid, "-d", "1ms", "-o", path).err
            self.assertNotIn("still has", err)

    def rss(self, process):
        return int(lib.status_fields(process.pid)["VmRSS"].split()[0]) >> 10

    def order(self, process, line):
        process.stdin.write(line.encode() + b"\n")
        process.stdin.flush()
        self.assertTrue(process.stdout.readline())

    def grow(self, process, mib):
        self.order(process, "grow %d" % (mib * self.MIB))

    def sizes(self, place):
        """Returns the RSS in the names of all profiles."""
        return [int(size) for name in os.listdir(place)
                for size in re.findall(r"-(\d+)MiB(?:-\d+)?\.heap$", name)]

    def next_path(self, tool):
        path = tool.stdout.readline().decode().rstrip("\n")
        self.assert_profile(self.read(path))
        return path

    def test_every_bytes(self):
        """What is allocated and freed again counts as well."""
        for way in ("--call", "--no-call"):
            with self.subTest(way=way):
                process = self.grower()
                place = self.directory()
                tool = self.start_recording(process, way, "--every-bytes", "32M", "--count", "3",
                                            "-o", place + "/%p-%t.heap")
                paths = []
                for _ in range(3):
                    self.order(process, "drop")
                    self.grow(process, 40)
                    paths.append(self.next_path(tool))
                code, _, err = self.end(tool)
                self.assertEqual(code, lib.OK, err)
                self.assertEqual(sorted(os.path.basename(path) for path in paths),
                                 sorted(os.listdir(place)))
                self.assert_active(process.pid, False)

    def test_every_bytes_json(self):
        process = self.grower()
        place = self.directory()
        tool = self.start_recording(process, "--every-bytes", "32M", "--json", directory=place)
        self.grow(process, 40)
        self.assertTrue(lib.wait_until(lambda: self.sizes(place), 30))
        self.grow(process, 10)
        tool.send_signal(signal.SIGINT)
        code, out, err = self.end(tool)
        self.assertEqual(code, lib.INTERRUPTED, err)
        profiles = json.loads(out)["profiles"]
        self.assertEqual([p["reason"] for p in profiles], ["bytes", "end"])
        self.assertGreaterEqual(profiles[0]["allocated"], 32 * self.MIB)
        self.assertGreaterEqual(profiles[0]["rss"], 20 * self.MIB)

    def test_new_peak(self):
        process = self.grower()
        place = self.directory()
        tool = self.start_recording(process, "--on-new-peak", "--step", "20", "--keep", "1",
                                    "-o", place, "--json")
        for size in (100, 180):
            self.order(process, "drop")
            self.grow(process, size)
            self.assertTrue(lib.wait_until(
                lambda least=size / 1.3: max(self.sizes(place), default=0) > least, 30))
        tool.send_signal(signal.SIGINT)
        code, out, err = self.end(tool)
        self.assertEqual(code, lib.INTERRUPTED, err)
        profiles = json.loads(out)["profiles"]
        self.assertEqual(set(p["reason"] for p in profiles), {"peak"})
        for former, peak in zip(profiles, profiles[1:]):
            self.assertGreater(peak["rss"], 1.2 * former["rss"])
        self.assertEqual([os.path.basename(profiles[-1]["path"])], os.listdir(place))
        self.assert_active(process.pid, False)

    def test_no_new_peak(self):
        """The profile at the end is then the only one."""
        process = self.grower()
        tool = self.start_recording(process, "--on-new-peak", "--step", "1000", "--json",
                                    directory=self.directory())
        tool.send_signal(signal.SIGINT)
        code, out, err = self.end(tool)
        self.assertEqual(code, lib.INTERRUPTED, err)
        self.assertIn("the RSS has not reached a new peak: the profile is of the end\n", err)
        self.assertEqual([p["reason"] for p in json.loads(out)["profiles"]], ["end"])

    def test_process_ends(self):
        process = self.grower()
        place = self.directory()
        tool = self.start_recording(process, "--every-bytes", "32M", "-o", place)
        self.grow(process, 40)
        path = self.next_path(tool)
        process.kill()
        code, out, err = self.end(tool)
        self.assertEqual(code, lib.GONE, err)
        paths = [path] + out.decode().split()
        self.assertEqual(sorted(os.listdir(place)), sorted(map(os.path.basename, paths)))
        for path in paths:
            self.assert_profile(self.read(path))
        self.assertEqual(len(paths) > 1, "cut short" in err, err)


if __name__ == "__main__":
    lib.main()
