"""What makes no call does not touch the target: no ptrace(2), no signal, and no write, which strace
and the tool's own trace show.
"""

import os
import re
import shutil

import lib

# Every call by which one process can stop, change or signal another.
TOUCHES = (
    "ptrace,kill,tkill,tgkill,rt_sigqueueinfo,rt_tgsigqueueinfo,pidfd_send_signal,pidfd_getfd,"
    "process_vm_writev,pwrite64,pwritev,pwritev2,process_madvise,process_mrelease,prlimit64,"
    "sched_setaffinity,sched_setscheduler,sched_setattr,setpriority,ioprio_set,migrate_pages,"
    "move_pages"
)


class Untouched(lib.TestCase):
    def strace(self, *words):
        """Runs the tool under strace; returns the result, and its calls that touch a process."""
        if not shutil.which("strace"):
            self.skipTest("strace is not installed")
        path = os.path.join(self.directory(), "trace")
        options = ("-f", "-qq", "-y", "-e", "signal=none", "-e", "trace=" + TOUCHES, "-o", path)
        no_leaks = {"ASAN_OPTIONS": "detect_leaks=0"}  # it would trace the tool
        result = lib.run_tool(*options, lib.TOOL, *words, tool="strace", env=no_leaks)
        lines = lib.read_text(path).splitlines()
        return result, [re.sub(r"^\d+ +", "", line) for line in lines]

    def touches(self, pid, calls):
        """Those that concern the process, or could: not those on the tool itself."""
        ids = "|".join(map(str, [pid] + lib.threads(pid)))
        looks = r"t?g?kill\((\d+, )?\d+, 0\)"  # signal 0 asks whether a process exists
        return [
            call
            for call in calls
            if not re.match(looks, call)
            and (
                call.startswith(("ptrace(", "process_vm_writev(", "pidfd_"))
                or re.match(r"\w+\((%s)\b" % ids, call)
                or re.match(r"pwrite\w*\(\d+</proc/", call)
            )
        ]

    def traced(self, *words):
        """The ptrace calls and writes that the tool itself counts."""
        result = self.assert_ran(lib.run_tool(*words, tool=lib.TRACED_TOOL))
        return re.findall(r"^jeattach: call \d+: (.*)", result.err, re.M)

    def assert_untouched(self, victim, *words):
        result, calls = self.strace(*words)
        self.assert_ran(result)
        self.assertEqual(self.touches(victim.pid, calls), [], result)
        self.assertEqual(self.traced(*words), [], words)
        return result

    def test_the_trace_shows_a_call(self):
        """The same two traces of a verb that makes a call."""
        victim = self.victim()
        _, calls = self.strace("on", "--call", victim.pid)
        self.assertTrue(any(call.startswith("ptrace(") for call in calls), calls)
        self.assertTrue(self.touches(victim.pid, calls))
        traced = self.traced("on", "--call", victim.pid)
        self.assertTrue(any(call.startswith("ptrace SEIZE") for call in traced), traced)
        self.assertTrue(any(call.startswith("process_vm_writev") for call in traced), traced)
        self.assert_unharmed(victim)

    def assert_writes(self, victim, calls, count):
        """Each is one byte, in its memory."""
        self.assertEqual(len(calls), count, calls)
        for call in calls:
            self.assertRegex(
                call,
                r"^(pwrite64\(\d+</proc/%d/mem>, \"\\[01]\", 1, \d+\)"
                r"|process_vm_writev\(%d, .*, iov_len=1\}\], 1, \[.*, iov_len=1\}\], 1, 0\)) = 1$"
                % (victim.pid, victim.pid),
            )

    def test_on_off(self):
        """One byte is written, once: nothing, if it has that value."""
        victim = self.victim("malloc")
        for verb, writes in (("on", 1), ("on", 0), ("off", 1), ("off", 0)):
            result, calls = self.strace(verb, "--no-call", victim.pid)
            self.assert_ran(result)
            self.assert_writes(victim, self.touches(victim.pid, calls), writes)
        self.assert_unharmed(victim)

    def test_own_trace_of_on_off(self):
        victim = self.victim("malloc")
        for verb, writes in (("on", 1), ("on", 0), ("off", 1), ("off", 0)):
            traced = self.traced(verb, "--no-call", victim.pid)
            self.assertEqual(len(traced), writes, traced)
            for line in traced:
                self.assertRegex(line, r"^(write to|process_vm_writev) .*0x\w+, 1 bytes = 1$")
        self.assert_unharmed(victim)

    def test_record(self):
        """Its writes are those of on and off."""
        victim = self.victim("malloc")
        path = os.path.join(self.directory(), "heap")
        words = ("record", "--no-call", "-d", "0.3s", "-o", path, victim.pid)
        result, calls = self.strace(*words)
        self.assert_ran(result)
        self.assert_writes(victim, self.touches(victim.pid, calls), 2)
        self.assert_profile(lib.read_bytes(path))
        self.assert_unharmed(victim)

    def test_dump(self):
        victim = self.victim("malloc")
        self.switch(victim, "on")
        self.assertTrue(victim.wait_rounds(3))
        path = os.path.join(self.directory(), "heap")
        self.assert_untouched(victim, "dump", "--no-call", "--force", "-o", path, victim.pid)
        self.assert_profile(lib.read_bytes(path))
        self.assert_unharmed(victim)

    def test_status(self):
        victim = self.victim()
        self.assert_untouched(victim, "status", "--no-call", victim.pid)
        self.assert_unharmed(victim)


if __name__ == "__main__":
    lib.main()
