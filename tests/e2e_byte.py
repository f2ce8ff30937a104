"""jeattach on and off by the one byte of prof.active: no call, no stop, no ptrace."""

import json
import os
import re
import shutil
import signal
import subprocess

import allocators
import lib

CELLS = [(version, link) for version in allocators.VERSIONS
         for link in allocators.LINKS + ("stripped",)]
# `on` has to visit the threads of 5.2.1; `off` is one byte there, too.
CURED = [cell for cell in CELLS if cell[0] != "5.2.1"]
WRITES = re.compile(r"(?m)^jeattach: call (\d+): (.*)$")


class Byte(allocators.TestCase):
    def switched(self, pid, verb, *words):
        return json.loads(self.assert_ran(lib.run_tool(verb, pid, "--json", *words)).text)

    def in_memory(self, pid, verb):
        """Returns what the tool tells; nothing of it is by a call."""
        told = self.switched(pid, verb)
        self.assertEqual(
            [told[name] for name in ("way", "calls", "thread", "held_ns", "stops")],
            ["memory", 0, 0, 0, 0])
        self.assertEqual((told["old"], told["new"]), (verb == "off", verb == "on"))
        return told

    def by_call(self, pid):
        """What jemalloc itself says."""
        text = self.assert_ran(lib.run_tool("mallctl", pid, "prof.active", "-q")).text
        return {"prof.active = true\n": True, "prof.active = false\n": False}[text]

    def objects(self, pid):
        """The number of sampled objects, as jemalloc dumps it."""
        out = self.assert_ran(lib.run_tool("dump", pid, "--call", "-q", "-o", "-")).out
        return int(re.search(rb"(?m)^  t\*: (\d+):", out)[1])

    def test_jemalloc_agrees(self):
        for version, link in CURED:
            with self.subTest(version=version, link=link):
                allocator = self.allocator(version, link)
                for verb in ("on", "off", "on"):
                    self.in_memory(allocator.pid, verb)
                    self.assertIs(self.by_call(allocator.pid), verb == "on")
                # What a call has written is read in memory.
                self.switched(allocator.pid, "off", "--call")
                told = self.switched(allocator.pid, "off")
                self.assertEqual((told["old"], told["new"], told["way"]), (False, False, "memory"))
                self.assert_well(allocator)
                allocator.stop()

    def test_samples_follow(self):
        """None before, then all threads sample, also those that had allocated before; none after.
        """
        for version, link in CURED:
            with self.subTest(version=version, link=link):
                allocator = self.allocator(version, link, words=("--threads", 4))
                allocator.ask("work 200")
                self.assertEqual(self.objects(allocator.pid), 0)
                self.in_memory(allocator.pid, "on")
                allocator.ask("work 200")
                self.assertEqual(allocator.sampling_threads(), 4)
                self.in_memory(allocator.pid, "off")
                count = self.objects(allocator.pid)
                allocator.ask("work 200")
                self.assertLessEqual(self.objects(allocator.pid), count)
                self.assert_well(allocator)
                allocator.stop()

    def test_defect_of_5_2(self):
        """Its threads must be visited, but not called; --no-call refuses and changes nothing."""
        for link in allocators.LINKS:
            with self.subTest(link=link):
                allocator = self.allocator("5.2.1", link, words=("--threads", 4))
                allocator.ask("work 1000")
                result = lib.run_tool("on", "--no-call", "--json", allocator.pid)
                self.assertEqual(result.code, lib.REFUSED, result)
                error = json.loads(result.text)["error"]
                self.assertEqual((error["code"], error["exit"]), ("unwritable", lib.REFUSED))
                self.assertIn("do not sample", error["cause"])
                self.assertIs(self.by_call(allocator.pid), False)
                told = self.in_memory(allocator.pid, "on")
                self.assertEqual((told["threads"], told["threads_sampling"]), (5, 5))
                self.assertGreaterEqual(told["threads_woken"], 4)
                self.assertEqual(told["threads_stopped"], told["threads_woken"])
                allocator.ask("work 1000")
                self.assertEqual(allocator.sampling_threads(), 4)
                self.in_memory(allocator.pid, "off")
                self.assertIs(self.by_call(allocator.pid), False)
                self.assert_well(allocator)

    def test_one_write(self):
        """The only access through the gate is a write of one byte; where nothing changes, none."""
        for verb, words, expected in (("on", (), 1), ("on", (), 0), ("off", ("--no-call",), 1),
                                      ("off", (), 0)):
            if verb == "on" and not words and expected:
                allocator = self.allocator("5.3.0")
            result = self.assert_ran(lib.run_tool(verb, allocator.pid, *words, tool=lib.TRACED_TOOL))
            writes = WRITES.findall(result.err)
            self.assertEqual(len(writes), expected, result)
            for _, what in writes:
                self.assertRegex(what, r"^(process_vm_writev|write to /proc/PID/mem) .*\b1 bytes")
        self.assertIs(self.by_call(allocator.pid), False)

    def test_no_system_call_of_ptrace(self):
        allocator = self.allocator("5.3.0")
        if not shutil.which("strace"):
            self.skipTest("no strace")
        log = os.path.join(self.directory(), "log")
        done = subprocess.run(
            ["strace", "-f", "-qq", "-o", log, "-e", "signal=none", "-e", "trace=ptrace,kill,tgkill,tkill,"
             "process_vm_writev,pwrite64", lib.TOOL, "on", str(allocator.pid)],
            capture_output=True, text=True, env=lib.tool_environment())
        if done.returncode:
            self.skipTest("strace cannot trace here: %s" % done.stderr.strip())
        lines = lib.read_text(log).splitlines()
        self.assertEqual(len(lines), 1, lines)
        self.assertRegex(lines[0], r'(pwrite64\(\d+, "\\1", 1, |process_vm_writev\(.*iov_len=1)')
        self.assertIs(self.by_call(allocator.pid), True)

    def test_stopped(self):
        """By SIGSTOP: it stays stopped, and has the new value when it goes on."""
        for version, link in CURED:
            with self.subTest(version=version, link=link):
                allocator = self.allocator(version, link)
                os.kill(allocator.pid, signal.SIGSTOP)
                self.assertTrue(lib.wait_until(lambda: lib.state_of(allocator.pid) == "T"))
                self.in_memory(allocator.pid, "on")
                self.in_memory(allocator.pid, "off")
                self.in_memory(allocator.pid, "on")
                self.assertEqual(lib.state_of(allocator.pid), "T")
                os.kill(allocator.pid, signal.SIGCONT)
                self.assertTrue(lib.wait_until(lambda: lib.state_of(allocator.pid) != "T"))
                self.assertIs(self.by_call(allocator.pid), True)
                self.assert_well(allocator)
                allocator.stop()

    def test_state_is_unchanged(self):
        victim = self.victim("nanosleep", arguments=("--threads", "8"))
        before = lib.snapshot(victim.pid)
        for _ in range(3):
            self.in_memory(victim.pid, "on")
            self.in_memory(victim.pid, "off")
        self.assertEqual(lib.snapshot_differences(victim.pid, before), [])
        self.assert_unharmed(victim)

    def test_profiling_off(self):
        for version, link in (("5.3.0", "static"), ("5.3.0", "shared"), ("5.3.1", "stripped")):
            with self.subTest(version=version, link=link):
                allocator = self.allocator(version, link, conf="prof:false")
                for verb in ("on", "off"):
                    result = lib.run_tool(verb, allocator.pid)
                    self.assert_failed(result, lib.PROFILING_OFF, "opt.prof is false")
                    result = lib.run_tool(verb, allocator.pid, "--no-call", tool=lib.TRACED_TOOL)
                    self.assert_failed(result, lib.PROFILING_OFF, "opt.prof is false")
                    self.assertIn("opt.prof is false", result.err)
                    self.assertEqual(WRITES.findall(result.err), [])
                self.assert_well(allocator)
                allocator.stop()


if __name__ == "__main__":
    lib.main()
