"""States in which the kernel refuses an attach: the one cause is reported, and no harm is done."""

import contextlib
import json
import os
import shutil
import subprocess
import sys
import unittest

import freezing
import lib

STRANGER = 12345  # a user without processes
CONFINE = os.path.join(lib.VICTIMS, "confine")
ALL_CALLS = "ptrace,process_vm_readv,process_vm_writev,pidfd_getfd"
VM_CALLS = "process_vm_readv,process_vm_writev,pidfd_getfd"
YAMA = "/proc/sys/kernel/yama/ptrace_scope"
PYTHON = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable


def with_capability(uid, *names):
    """The start of a command: another user, with only these capabilities."""
    caps = ",".join(["-all"] + ["+" + name for name in names])
    words = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"]
    return words + ["--inh-caps", caps, "--ambient-caps", caps, "--bounding-set", caps]


class Permit(lib.TestCase):
    def setUp(self):
        lib.require_root()
        for program in ("setpriv", "unshare", "nsenter"):
            if not shutil.which(program):
                raise unittest.SkipTest("%s is not installed" % program)

        self.public = self.directory()
        os.chmod(self.public, 0o755)

    def copy(self, program):
        """A directory where everybody may run it."""
        path = os.path.join(self.public, os.path.basename(program))
        return path if os.path.exists(path) else shutil.copy(program, path)

    def tool(self, *words, before=(), tool=lib.TOOL):
        """The tool started through other commands."""
        if not before:
            return lib.run_tool(*words, tool=tool)
        before = [self.copy(word) if word == CONFINE else word for word in before]
        # The leak checker would need the permissions that are removed here.
        options = os.environ.get("ASAN_OPTIONS", "") + ":detect_leaks=0"
        return lib.run_tool(*before[1:], self.copy(tool), *words, tool=before[0], cwd="/",
                            env={"ASAN_OPTIONS": options})

    def assert_told(self, result, code, name, *words):
        """The same on stderr and in JSON: exit code, name of the cause, the values read."""
        self.assertEqual(result.code, code, result)
        error = json.loads(result.text)["error"]
        self.assertEqual((error["code"], error["exit"]), (name, code), result)
        self.assertIn("\n  cause: %s\n" % error["cause"], result.err)
        self.assertTrue(result.err.startswith("jeattach: %s\n" % error["what"]), result)
        if error["fix"]:
            self.assertIn("\n  fix:   %s\n" % error["fix"], result.err)
        for word in words:
            self.assertIn(word, error["cause"])
        return error

    def assert_switches(self, pid, before=()):
        """prof.active is switched in memory, where no call can be made."""
        for verb, active in (("on", True), ("on", True), ("off", False)):
            told = json.loads(self.assert_ran(self.tool(verb, pid, "--json", before=before)).text)
            self.assertEqual((told["new"], told["way"], told["calls"], told["thread"]),
                             (active, "memory", 0, 0))
            status = json.loads(self.tool("status", pid, "--json", "--no-call", before=before).text)
            self.assertIs(status["prof.active"], active)

    def assert_reads(self, pid, before=()):
        """Profiles are read from memory by default; status and the fix of a call say so."""
        result = self.assert_ran(self.tool("dump", pid, "-o", "-", before=before))
        self.assert_profile(result.out)
        self.assertIn("no thread was stopped", result.err)
        for words in (("record", "-d", "10ms", "-o", os.devnull), ("leak", "-d", "10ms"),
                      ("top", "--once")):
            result = self.tool(words[0], pid, *words[1:], "--json", before=before)
            told = json.loads(self.assert_ran(result).text)
            self.assertEqual((told["way"], told["calls"]), ("memory", 0))
        text = self.tool("status", pid, before=before).text
        self.assertIn("\nmemory: readable: dump -o, record, leak, top, watch, on, off and "
                      "stats need no attach\n", text)
        self.assertIn("\nnext: jeattach on %d\n" % pid, text)
        told = json.loads(self.tool("status", "--json", pid, before=before).text)["attach"]
        self.assertEqual((told["profile_readable"], told["active_writable"]), (True, True))
        for words, fix in ((("on", "--call"), "; or omit --call, which is not needed here\n"),
                           (("dump",), "; or use -o FILE, which needs no call\n"),
                           (("stats", "--full"), "; or look at it by jeattach stats or jeattach dump -o, which need "
                                                 "no call\n")):
            self.assertIn(fix, self.tool(words[0], pid, *words[1:], before=before).err)

    def assert_refused(self, pid, code, name, *words, before=(), maps=True, memory=False):
        """Each verb that makes a call reports the same cause; status does so without ptrace.
        memory: what needs no call works."""
        verbs = [("on", "--call"), ("dump", "-o", os.devnull, "--call"), ("stats", "--full"),
                 ("mallctl", "version")]
        if memory:
            self.assert_switches(pid, before)
            self.assert_reads(pid, before)
        else:
            verbs += [("on",), ("off", "--no-call"), ("dump", "-o", os.devnull)]
        for verb in verbs:
            more = (verb[0], pid) + verb[1:]
            error = self.assert_told(self.tool(*more, "--json", before=before), code, name, *words)
        result = self.tool("status", "--json", pid, before=before, tool=lib.TRACED_TOOL)
        self.assertNotIn("ptrace SEIZE", result.err)
        if not maps:
            self.assert_told(result, code, name, *words)
            return error
        told = json.loads(result.text)
        self.assertIs(told["attach"]["possible"], False)
        for member in ("code", "exit", "cause", "seen", "fix"):
            self.assertEqual(told["attach"][member], error[member])
        self.assertEqual(result.code, lib.OK, result)  # what memory has is reported all the same
        text = self.tool("status", pid, before=before)
        self.assertIn("\nattach: refused: %s; %s\n" % (error["cause"], error["fix"]), text.text)
        self.assertEqual(text.code, result.code)
        return error

    def assert_works(self, victim, before=()):
        """Every verb, and the target is unchanged."""
        kept = lib.snapshot(victim.pid)
        self.assert_ran(self.tool("on", victim.pid, before=before))
        self.assert_ran(self.tool("off", victim.pid, "--call", before=before))
        self.assert_ran(self.tool("on", victim.pid, "--call", before=before))
        self.assertTrue(victim.wait_rounds(2))
        for way in ("--call", "--no-call"):
            result = self.tool("dump", way, victim.pid, "-o", "-", before=before)
            self.assert_profile(self.assert_ran(result).out)
        self.assert_dumps(victim, before)
        for verb in (("stats", "--full"), ("purge",), ("mallctl", "version"), ("mallctl", "prof.reset"),
                     ("off", "--call")):
            self.assert_ran(self.tool(verb[0], victim.pid, *verb[1:], before=before))
        status = self.assert_ran(self.tool("status", victim.pid, before=before))
        self.assertIn("\nattach: possible\n", status.text)
        self.assertIn("MALLOC_CONF='%s'" % lib.malloc_conf(victim.directory), status.text)
        rows = json.loads(self.assert_ran(self.tool("ps", "--json", before=before)).text)
        self.assertIn(victim.pid, [row["pid"] for row in rows["processes"]])
        self.assertEqual(lib.snapshot_differences(victim.pid, kept), [])
        self.assert_unharmed(victim)

    def assert_dumps(self, victim, before):
        """To a relative path, through a link: the printed path is that of the file itself."""
        os.chmod(victim.directory, 0o777)
        os.symlink(".", os.path.join(victim.directory, "link"))
        result = self.tool("dump", victim.pid, "--path", "link/x.heap", before=before)
        self.assert_ran(result)
        path = os.path.join(victim.directory, "x.heap")
        self.assertEqual(result.text, path + "\n")
        with open(path, "rb") as file:
            self.assert_profile(file.read())

    # ---- it works with fewer permissions than root ----

    def test_ptrace_capability_alone(self):
        """Another user with CAP_SYS_PTRACE: mem, environ and fd/ are refused, ptrace is not."""
        victim = self.victim(user=lib.NOBODY)
        before = with_capability(STRANGER, "sys_ptrace")
        done = subprocess.run(before + ["cat", "/proc/%d/environ" % victim.pid],
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self.assertNotEqual(done.returncode, 0, "environ is not refused: nothing is tested")
        self.assert_works(victim, before)

    def test_filter_without_process_vm(self):
        victim = self.victim()
        for action in ("EPERM", "ENOSYS"):
            with self.subTest(action=action):
                self.assert_ran(self.tool("on", victim.pid, before=(CONFINE, action, VM_CALLS)))
        self.assert_works(victim, (CONFINE, "ENOSYS", VM_CALLS))

    def test_filter_without_writing(self):
        """Reading is allowed, writing is not, nor is /proc/PID/mem: it writes word by word."""
        victim = self.victim(user=lib.NOBODY)
        before = with_capability(STRANGER, "sys_ptrace")
        self.assert_works(victim, before + [CONFINE, "EPERM", "process_vm_writev"])

    def test_same_user(self):
        """Without any capability; Yama may forbid that."""
        victim = self.victim(user=lib.NOBODY)
        before = with_capability(lib.NOBODY)
        scope = lib.read_text(YAMA).strip() if os.path.exists(YAMA) else "0"
        if scope == "0":
            self.assert_works(victim, before)
        else:
            self.assert_told(self.tool("on", victim.pid, "--json", before=before),
                             lib.NOT_PERMITTED, "denied_yama", "ptrace_scope is " + scope)

    # ---- it is refused ----

    def test_gone(self):
        ended = subprocess.Popen(["true"])
        ended.wait()
        error = self.assert_refused(ended.pid, lib.GONE, "gone", str(ended.pid), maps=False)
        self.assertIn("jeattach ps", error["fix"])

    def test_zombie(self):
        child = subprocess.Popen(["true"])
        self.addCleanup(child.wait)
        self.assertTrue(lib.wait_until(lambda: lib.state_of(child.pid) == "Z"))
        error = self.assert_refused(child.pid, lib.GONE, "zombie", "parent %d" % os.getpid(),
                                    maps=False)
        self.assertIsNone(error["fix"])

    def test_traced(self):
        victim = self.victim()
        holder = self.process(
            [os.path.join(lib.VICTIMS, "hold"), str(victim.pid)], stdout=subprocess.PIPE)
        self.assertEqual(holder.stdout.readline(), b"holding\n")
        self.assert_refused(victim.pid, lib.NOT_PERMITTED, "traced", "%d (hold)" % holder.pid,
                            memory=True)
        lib.end_process(holder)
        self.assert_ran(self.tool("on", victim.pid, "--call"))
        self.assert_unharmed(victim)

    def test_traced_from_outside(self):
        """By a tracer that has no pid in the tool's pid namespace, so that it is not shown."""
        directory = self.directory()
        report = os.path.join(directory, "report")
        with open(report, "wb") as file:
            file.truncate(lib.REPORT.size)
        argv = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
                os.path.join(lib.VICTIMS, "victim"), "nanosleep", report]
        unshare = self.process(argv, env=lib.tool_environment({"MALLOC_CONF": "prof:true"}))
        children = "/proc/%d/task/%d/children" % (unshare.pid, unshare.pid)
        if not os.path.exists(children):
            raise unittest.SkipTest("this kernel does not tell a process's children")
        self.assertTrue(lib.wait_until(lambda: lib.read_text(children)))
        pid = int(lib.read_text(children))
        self.assertTrue(lib.wait_until(lambda: self.is_ready(report)))
        holder = self.process(
            [os.path.join(lib.VICTIMS, "hold"), str(pid)], stdout=subprocess.PIPE)
        self.assertEqual(holder.stdout.readline(), b"holding\n")
        before = ["nsenter", "--pid", "--mount", "-t", str(pid)]
        self.assert_switches(1, before)
        result = self.tool("on", 1, "--json", "--call", before=before)
        self.assert_told(result, lib.NOT_PERMITTED, "denied", "outside this pid namespace")

    @staticmethod
    def is_ready(report):
        with open(report, "rb") as file:
            counters = dict(zip(lib.COUNTERS, lib.REPORT.unpack(file.read(lib.REPORT.size))))
        return counters["state"] == lib.READY

    def test_other_user(self):
        victim = self.victim(user=lib.NOBODY)
        self.assert_refused(
            victim.pid, lib.NOT_PERMITTED, "denied_uid", "its uid is %d" % lib.NOBODY,
            "runs as %d" % STRANGER, before=with_capability(STRANGER), maps=False)
        self.assert_unharmed(victim)

    def test_root_without_capability(self):
        victim = self.victim(user=lib.NOBODY)
        before = ["setpriv", "--bounding-set", "-sys_ptrace"]
        self.assert_refused(victim.pid, lib.NOT_PERMITTED, "denied_uid", "runs as 0",
                            before=before, maps=False)

    def test_other_group(self):
        victim = self.victim(user=lib.NOBODY)
        before = ["setpriv", "--reuid", str(lib.NOBODY), "--regid", str(STRANGER),
                  "--clear-groups"]
        self.assert_refused(victim.pid, lib.NOT_PERMITTED, "denied_gid", "its gid is %d" % lib.NOBODY,
                            before=before, maps=False)

    def test_more_capabilities(self):
        target = self.process(with_capability(STRANGER, "net_bind_service") + ["sleep", "1000"])
        self.wait_for("sleep", target.pid)
        self.assert_refused(target.pid, lib.NOT_PERMITTED, "denied_capabilities",
                            "cap_net_bind_service", before=with_capability(STRANGER), maps=False)

    def test_not_dumpable(self):
        """By prctl(PR_SET_DUMPABLE, 0)."""
        target = self.process(with_capability(STRANGER) + [PYTHON, "-c", NOT_DUMPABLE],
                              stdout=subprocess.PIPE)
        self.assertEqual(target.stdout.readline(), b"ready\n")
        self.assert_refused(target.pid, lib.NOT_PERMITTED, "denied_dumpable", "belong to root",
                            before=with_capability(STRANGER), maps=False)

    def wait_for(self, name, pid):
        """Lasts until exec is complete."""
        self.assertTrue(lib.wait_until(lambda: lib.read_text("/proc/%d/comm" % pid) == name + "\n"))

    def test_user_namespace(self):
        """Root of a user namespace has all capabilities, and none outside of it."""
        victim = self.victim()
        before = ["unshare", "--user", "--map-root-user"]
        if subprocess.run(before + ["true"], stderr=subprocess.DEVNULL).returncode:
            raise unittest.SkipTest("this kernel makes no user namespace")
        self.assert_refused(victim.pid, lib.NOT_PERMITTED, "denied_user_namespace",
                            "not a descendant of jeattach's", before=before, maps=False)
        self.assert_unharmed(victim)

    def test_user_namespace_below(self):
        """The other way round nothing is refused: not to root, nor to the user who made it."""
        for uid in (0, lib.NOBODY):
            with self.subTest(uid=uid):
                directory = self.directory()
                os.chmod(directory, 0o777)
                pid = self.sleeper_in_namespace(uid)
                before = with_capability(uid) if uid else ()
                told = self.tool("status", "--json", pid, before=before)
                # It has no jemalloc: that much could be read.
                self.assert_told(told, lib.NO_JEMALLOC, "no_jemalloc")

    def sleeper_in_namespace(self, uid):
        words = ["setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups"]
        words += ["unshare", "--user", "--map-root-user", "sleep", "1000"]
        target = self.process(words, stderr=subprocess.DEVNULL)
        lib.wait_until(lambda: target.poll() is not None
                       or lib.read_text("/proc/%d/comm" % target.pid) == "sleep\n")
        if target.poll() is not None:
            raise unittest.SkipTest("this kernel makes no user namespace")
        return target.pid

    def test_own_filter(self):
        victim = self.victim()
        for action, word in (("EPERM", "ptrace with EPERM"), ("ENOSYS", "ptrace with ENOSYS"),
                             ("KILL", "kills callers of ptrace")):
            for calls in ("ptrace", ALL_CALLS):
                if action == "KILL" and calls != "ptrace":
                    continue  # it would fail before it could report this
                with self.subTest(action=action, calls=calls):
                    self.assert_refused(victim.pid, lib.NOT_PERMITTED, "denied_seccomp", word,
                                        before=(CONFINE, action, calls), memory=True)
        self.assert_looks(victim, (CONFINE, "ENOSYS", ALL_CALLS))
        self.assert_unharmed(victim)

    def assert_looks(self, victim, before):
        """Without ptrace and process_vm_readv: the values that /proc/PID/mem has."""
        told = json.loads(self.tool("status", "--json", victim.pid, before=before).text)
        self.assertEqual((told["opt.prof"], told["variable_value"], told["calls"]),
                         (True, lib.malloc_conf(victim.directory), 0))
        rows = json.loads(self.assert_ran(self.tool("ps", "--json", before=before)).text)
        row = next(row for row in rows["processes"] if row["pid"] == victim.pid)
        self.assertEqual(row["prof"], "inactive")

    def test_own_filter_without_memory(self):
        """Without process_vm_readv and /proc/PID/mem: no value can be read."""
        victim = self.victim(user=lib.NOBODY)
        before = with_capability(STRANGER, "sys_ptrace") + [CONFINE, "ENOSYS", VM_CALLS]
        self.assert_refused(victim.pid, lib.NOT_PERMITTED, "denied_seccomp",
                            "process_vm_readv with ENOSYS", "/proc/PID/mem", before=before,
                            maps=False)

    def test_closed_memory(self):
        """Only /proc/PID/mem is closed, as to a sidecar: what reads little works, objects are not
        counted, and the right that lacks is named."""
        victim = self.victim(user=lib.NOBODY)
        before = with_capability(STRANGER, "sys_ptrace")
        self.assert_switches(victim.pid, before)
        self.assert_profile(self.assert_ran(
            self.tool("dump", victim.pid, "--no-call", "-o", "-", before=before)).out)
        self.assertIn("\nmemory: without CAP_DAC_OVERRIDE, ",
                      self.tool("status", victim.pid, before=before).text)
        for verb in "peek", "frag":
            self.assert_told(self.tool(verb, victim.pid, "--json", before=before), lib.REFUSED,
                             "objects_unreadable", "CAP_DAC_OVERRIDE", "has forked")
        for words in ("stats",), ("leak", "-d", "10ms"):
            self.assert_ran(self.tool(words[0], victim.pid, *words[1:], before=before))
        for other in "dac_override", "dac_read_search":
            before = with_capability(STRANGER, "sys_ptrace", other)
            self.assert_ran(self.tool("peek", victim.pid, before=before))
        self.assert_unharmed(victim)

    def test_filter_after_rights(self):
        """With two causes the first is reported; after it is removed, the second."""
        victim = self.victim(user=lib.NOBODY)
        self.assert_refused(
            victim.pid, lib.NOT_PERMITTED, "denied_uid",
            before=with_capability(STRANGER) + [CONFINE, "EPERM", ALL_CALLS], maps=False)

    def assert_frozen(self, make):
        victim = self.victim()
        freezer = make(self, victim.pid)
        freezer.freeze(self)
        error = self.assert_refused(victim.pid, lib.NO_SAFE_MOMENT, "frozen", freezer.path,
                                    memory=True)
        self.assertIn(freezer.path, error["fix"])
        self.assertEqual(lib.tracer_of(victim.pid), 0)
        freezer.thaw()
        self.assert_ran(self.tool("on", victim.pid, "--call"))
        self.assert_unharmed(victim, slow=True)

    def test_frozen(self):
        self.assert_frozen(freezing.version_1)

    def test_frozen_version_2(self):
        self.assert_frozen(freezing.version_2)

    def test_32_bit(self):
        program = os.path.join(lib.VICTIMS, "tiny32")
        if not os.path.exists(program):
            raise unittest.SkipTest("no 32-bit program could be built")
        try:
            target = self.process([program])
        except OSError as error:
            raise unittest.SkipTest("this kernel runs no 32-bit program: %s" % error)
        self.wait_for("tiny32", target.pid)
        self.assert_refused(target.pid, lib.NO_JEMALLOC, "foreign_abi", "not a 64-bit program",
                            maps=False)

    def test_pid_of_a_namespace(self):
        """For a pid of the container's namespace the message names its pid here."""
        target, inner = self.namespace_process()
        error = self.assert_refused(inner, lib.GONE, "other_pid_namespace",
                                    "%d (python3" % target, maps=False)
        self.assertIn(str(target), error["fix"])

    def namespace_process(self):
        """A pid that is free here, and taken in a pid namespace below. Returns (pid here, pid
        there)."""
        last = int(lib.read_text("/proc/loadavg").split()[-1])
        # Just behind the last pid: it will not be used here for long.
        first = last - 500 if last > 1000 else int(lib.read_text("/proc/sys/kernel/pid_max")) - 500
        inner = next(pid for pid in range(first, 2, -1) if not os.path.exists("/proc/%d" % pid))
        script = TAKES_PID % inner
        argv = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc",
                PYTHON, "-c", script]
        process = self.process(argv, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        if process.stdout.readline() != b"ready\n":
            raise unittest.SkipTest("this kernel does not let a pid be chosen")
        return self.find(inner), inner

    @staticmethod
    def find(inner):
        for name in os.listdir("/proc"):
            if not name.isdigit():
                continue
            with contextlib.suppress(OSError):
                pids = lib.status_fields(int(name)).get("NSpid", "").split()
                if str(inner) in pids[1:]:
                    return int(name)
        raise AssertionError("nobody has pid %d below" % inner)

    def test_procfs_of_another_namespace(self):
        """After nsenter --pid alone a pid is one process to /proc and another to ptrace."""
        victim = self.victim()
        before = ["unshare", "--pid", "--fork", "--kill-child"]
        self.assert_refused(victim.pid, lib.NOT_PERMITTED, "foreign_proc",
                            before=before, maps=False)
        self.assert_unharmed(victim)

    def test_hidden(self):
        """hidepid: the process exists, and /proc does not show it."""
        victim = self.victim(user=lib.NOBODY)
        for level in (1, 2):
            with self.subTest(hidepid=level):
                mount = "mount -t proc -o hidepid=%d proc /proc && exec \"$@\"" % level
                before = ["unshare", "--mount", "sh", "-c", mount, "sh"]
                if subprocess.run(before + ["true"], stderr=subprocess.DEVNULL).returncode:
                    raise unittest.SkipTest("/proc cannot be mounted with hidepid here")
                self.assert_refused(victim.pid, lib.NOT_PERMITTED, "hidden", str(victim.pid),
                                    before=before + with_capability(STRANGER), maps=False)

    # ---- errors as JSON ----

    def test_usage_as_json(self):
        for words, cause in ((("--bogus",), "unknown option '--bogus'"),
                             (("1x",), "'1x' is not a process id")):
            result = lib.run_tool("on", "--json", *words)
            error = self.assert_json_usage(result)
            self.assertEqual(error["cause"], cause)
        self.assertEqual(lib.run_tool("on", "--bogus").out, b"")
        # Only the verb itself can judge these; stdout has the profile in the last one.
        out = os.path.join(self.directory(), "x")
        words = ["dump", "--json", "-f", "bogus", str(os.getpid())]
        error = self.assert_json_usage(lib.run_tool(*words, "-o", out))
        self.assertIn("format 'bogus'", error["cause"])
        self.assertEqual(lib.run_tool(*words, "-o", "-").out, b"")

    def assert_json_usage(self, result):
        self.assertEqual(result.code, lib.USAGE, result)
        error = json.loads(result.text)["error"]
        self.assertEqual((error["code"], error["exit"]), ("usage", lib.USAGE))
        self.assertTrue(result.err.startswith("jeattach: "), result)
        return error

    def test_several_as_json(self):
        """One line each, for those that failed and those that succeeded."""
        victim = self.victim()
        ended = subprocess.Popen(["true"])
        ended.wait()
        result = lib.run_tool("on", "--json", ended.pid, victim.pid)
        self.assertEqual(result.code, lib.GONE, result)
        first, second = [json.loads(line) for line in result.text.splitlines()]
        self.assertEqual((first["error"]["code"], first["error"]["pid"]), ("gone", ended.pid))
        self.assertEqual((second["pid"], second["new"]), (victim.pid, True))

    def test_stream_is_no_json(self):
        """With -o - stdout is for the profile, even if there is none."""
        result = lib.run_tool("dump", "--json", "-o", "-", self.gone())
        self.assertEqual((result.code, result.out), (lib.GONE, b""), result)

    @staticmethod
    def gone():
        ended = subprocess.Popen(["true"])
        ended.wait()
        return ended.pid


NOT_DUMPABLE = """
import ctypes, time
ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)
print("ready", flush=True)
time.sleep(600)
"""

# Pid 1 of the namespace; its child gets the wanted pid (/proc/sys/kernel/ns_last_pid).
TAKES_PID = """
import os, time
with open("/proc/sys/kernel/ns_last_pid", "w") as file:
    file.write(str(%d - 1))
if os.fork() == 0:
    print("ready", flush=True)
    time.sleep(600)
os.wait()
"""


if __name__ == "__main__":
    lib.main()
