"""Selecting targets by name, container, cgroup and parent, and several targets at once."""

import contextlib
import json
import os
import random
import re
import shutil
import signal
import stat
import subprocess
import unittest

import lib
from e2e_ps import children, comm, jemalloc_library, maps_of

CONF = "prof:true,prof_active:false,lg_prof_sample:12"
SLEEP = shutil.which("sleep")
GROUPS = "/sys/fs/cgroup"
PPOLL = 271  # of x86-64: record waits in these
AS_NOBODY = {"user": lib.NOBODY, "group": lib.NOBODY, "extra_groups": []}


def switches(pid):
    """Returns how often it was scheduled: a sleeping process's count changes only if it is touched.
    """
    fields = lib.status_fields(pid)
    return fields["voluntary_ctxt_switches"], fields["nonvoluntary_ctxt_switches"]


def workers_of(tool):
    with contextlib.suppress(OSError):
        return [int(pid) for pid in lib.read_text("/proc/%d/task/%d/children" % (tool, tool)).split()]
    return []


def system_call(pid):
    """Returns the number of the system call in which it sleeps; None if it runs, or has ended."""
    with contextlib.suppress(OSError):
        number = lib.read_text("/proc/%d/syscall" % pid).split()[0]
        return int(number) if number != "running" else None
    return None


def documents(result):
    return [json.loads(line) for line in result.text.splitlines()]


def pids_of(result, failed=False):
    """Returns the documents with a result, or those with an error, in their order."""
    found = [document for document in documents(result) if failed == ("error" in document)]
    return [document.get("error", document)["pid"] for document in found]


class Hierarchy:
    """Returns a mount of cgroups in which this test may make cgroups, v2 or one of v1."""

    def __init__(self, names=None):
        found = [path for path in [GROUPS] + sorted(list_directories(GROUPS))
                 if (not names or os.path.basename(path) in names) and is_usable(path)]
        if not found:
            raise unittest.SkipTest("no control groups can be made below %s" % GROUPS)
        self.root = found[0]
        self.made = []

    def make(self, name):
        path = self.root
        for part in name.split("/"):
            path = os.path.join(path, part)
            if not os.path.isdir(path):
                os.mkdir(path)
                self.made.append(path)
        return path

    def remove(self):
        for path in reversed(self.made):
            lib.wait_until(lambda path=path: removed(path), 20, 0.01)


def removed(path):
    """A cgroup can be removed when its last process has ended, not before."""
    with contextlib.suppress(OSError):
        os.rmdir(path)
    return not os.path.isdir(path)


def list_directories(path):
    with contextlib.suppress(OSError):
        return [os.path.join(path, name) for name in os.listdir(path)]
    return []


def is_usable(path):
    """A cpuset cgroup must be set up before it accepts a process."""
    if not os.path.exists(os.path.join(path, "cgroup.procs")) or "cpuset" in os.path.basename(path):
        return False
    probe = os.path.join(path, "jeattach-probe-%d" % os.getpid())
    try:
        os.mkdir(probe)
        os.rmdir(probe)
    except OSError:
        return False
    return True


class Targets(lib.TestCase):
    def unique_name(self):
        return "jt%d-%d" % (os.getpid(), random.randrange(1 << 30))

    def sleeper(self, name="sleep", jemalloc=True, argv=("600",), program=SLEEP, **options):
        """A process that sleeps, under a name of its own, with or without jemalloc."""
        extra = {"LD_PRELOAD": jemalloc_library(), "MALLOC_CONF": CONF} if jemalloc else {}
        process = self.process(
            [name] + list(argv), executable=program, env=lib.tool_environment(extra), **options
        )
        begun = lambda: (not jemalloc or "/libjemalloc.so" in maps_of(process.pid)) and \
            lib.state_of(process.pid) == "S" and comm(process.pid) == os.path.basename(program)
        self.assertTrue(lib.wait_until(begun), "it does not sleep")
        return process

    def late(self):
        """A process whose stop is delayed until it is released."""
        process = self.process(
            [os.path.join(lib.VICTIMS, "late")],
            stdin=subprocess.PIPE,
            cwd=self.directory(),
            env=lib.tool_environment({"MALLOC_CONF": CONF}),
        )
        self.assertTrue(lib.wait_until(lambda: lib.state_of(process.pid) == "D"))
        return process

    def let_go(self, *lates):
        """After the tool has ended they continue, and are not traced."""
        for late in lates:
            late.stdin.close()
        for late in lates:
            going = lambda late=late: lib.state_of(late.pid) == "S"
            self.assertTrue(lib.wait_until(going), "it does not go on")
            self.assertEqual(lib.tracer_of(late.pid), 0)

    def tool(self, *words, **options):
        """Starts the tool in the background."""
        return self.process(
            [lib.TOOL] + [str(word) for word in words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=lib.tool_environment(),
            **options,
        )

    def finish(self, tool):
        out, err = tool.communicate(timeout=lib.TOOL_TIMEOUT)
        return lib.Result(tool.args[1:], tool.returncode, out, err.decode(), 0)

    def assert_picks(self, process, *words):
        """These arguments select this process and no other."""
        result = self.assert_ran(lib.run_tool("status", "--json", "--no-call", *words))
        self.assertEqual(json.loads(result.text)["pid"], process.pid, result)

    def assert_none(self, code, *words):
        return self.assert_failed(lib.run_tool("on", *words), code, "cause:")

    # ---- names -----------------------------------------------------------------------------

    def test_ambiguous(self):
        """Several matches: they are listed, exit 2, and none is touched."""
        name = self.unique_name()
        both = [self.sleeper(name), self.sleeper(name)]
        before = [switches(process.pid) for process in both]
        for words in (("on",), ("dump",), ("dump", "-o", os.devnull), ("mallctl", "version"),
                      ("status",), ("purge",)):
            result = lib.run_tool(words[0], "-n", name, *words[1:], tool=lib.TRACED_TOOL)
            self.assert_failed(result, lib.USAGE, "matches 2 processes\n", "none was touched", "--all")
            self.assertRegex(result.err, r"(?m)^ *PID +NSPID +NAME .* CONTAINER +UID +STARTED +COMMAND$")
            for process in both:
                self.assertRegex(result.err, r"(?m)^ *%d +%d +sleep +5\..* %d +\S+ \S+ ago +%s 600$" % (
                    process.pid, process.pid, os.getuid(), name))
            self.assertNotIn("call 1:", result.err)
        self.assertEqual([switches(process.pid) for process in both], before)
        self.assertEqual([lib.tracer_of(process.pid) for process in both], [0, 0])

    def test_name_in_the_place_of_a_pid(self):
        name = self.unique_name()
        process = self.sleeper(name)
        self.assert_picks(process, name)
        self.assertIn("\nnext: ", self.assert_ran(lib.run_tool(name)).text)
        self.assertEqual(self.assert_ran(lib.run_tool("mallctl", name, "opt.prof")).text,
                         "opt.prof = true\n")
        self.assertIn(str(process.pid), self.assert_ran(lib.run_tool("ps", name)).text)
        other = self.sleeper(name)
        self.assert_failed(lib.run_tool("status", name), lib.USAGE, "matches 2 processes\n")
        lib.end_process(other)
        for words in ((name, str(process.pid)), (name, name)):
            self.assert_failed(lib.run_tool("status", *words), lib.USAGE)
        self.assert_none(lib.GONE, name + "x")
        # In a directory of others, a file of that name is not taken for it.
        place = self.directory()
        for planted in (name, name + ".heap"):
            shutil.copy(os.path.join(lib.ROOT, "tests", "fixtures", "5.2.1.heap"),
                        os.path.join(place, planted))
        os.chown(os.path.join(place, name + ".heap"), lib.NOBODY, lib.NOBODY)
        self.assertIn("\nnext: ", self.assert_ran(lib.run_tool(name, cwd=place)).text)
        self.assert_failed(lib.run_tool(name + ".heap", cwd=place), lib.GONE, "no process", "the file of that name")
        self.assert_failed(lib.run_tool(name + "x"), lib.GONE, "no process", "it is no verb and no file, either")

    def test_all(self):
        name = self.unique_name()
        three = sorted(self.sleeper(name).pid for _ in range(3))
        self.sleeper(name, jemalloc=False)
        result = self.assert_ran(lib.run_tool("on", "-n", name, "--all", "--json"))
        self.assertEqual(pids_of(result), three)
        for document in documents(result):
            self.assertEqual((document["old"], document["new"]), (False, True))
        self.assertIn("jeattach: 3 targets: 3 done\n", result.err)
        result = self.assert_ran(lib.run_tool("mallctl", "-q", "-n", name, "--all", "prof.active"))
        wanted = "".join("sleep[%d] prof.active = true\n" % pid for pid in three)
        self.assertEqual((result.text, result.err), (wanted, ""))

    def test_one_line_each(self):
        """With --json a document is one line, even if a single process prints several."""
        name = self.unique_name()
        both = sorted(self.sleeper(name).pid for _ in range(2))
        for words in (("status",), ("stats",), ("mallctl", "version"), ("on",), ("purge",)):
            result = self.assert_ran(
                lib.run_tool(words[0], "--json", "-q", "-n", name, "--all", *words[1:]))
            self.assertEqual((pids_of(result), result.err), (both, ""))
        result = self.assert_ran(lib.run_tool("stats", "--full", "--json", "-n", name, "--all"))
        self.assertIn("version", documents(result)[0]["stats"]["jemalloc"])
        result = self.assert_ran(lib.run_tool("stats", "--full", "-q", "-n", name, "--all"))
        heads = [line for line in result.text.splitlines() if line.startswith("sleep[")]
        self.assertEqual(heads, ["sleep[%d]" % pid for pid in both])

    def test_what_a_name_is(self):
        """argv[0], its last part, the comm, the program; exact matches; a process without jemalloc
        is not a match if another one has it."""
        name = self.unique_name() + "-longer-than-a-comm"
        process = self.sleeper("/no/such/" + name)
        self.assert_picks(process, "-n", name)
        self.assert_picks(process, "-n", "/no/such/" + name)
        self.sleeper(name, jemalloc=False)
        self.assert_picks(process, "-n", name)
        self.assert_none(lib.GONE, "-n", name[:-1])
        program = os.path.join(self.directory(), self.unique_name()[:12])
        shutil.copy(SLEEP, program)
        other = self.sleeper("sleep", program=program)
        self.assert_picks(other, "-n", os.path.basename(program))
        self.assert_picks(other, "-n", program)
        os.unlink(program)
        self.assert_picks(other, "-n", program)
        self.assert_picks(other, "-s", other.pid, "-n", "sleep")

    def test_no_match(self):
        name = self.unique_name()
        result = lib.run_tool("on", "-n", name)
        self.assert_failed(result, lib.GONE, "no process with jemalloc matches -n " + name, "processes matches")
        plain = self.sleeper(name, jemalloc=False)
        result = lib.run_tool("on", "-n", name)
        self.assert_failed(result, lib.NO_JEMALLOC, "%d (sleep)" % plain.pid, "no jemalloc")
        self.sleeper(name, jemalloc=False)
        result = lib.run_tool("on", "-n", name)
        self.assert_failed(result, lib.NO_JEMALLOC, "2 processes match")
        self.assert_none(lib.GONE, "-s", plain.pid)
        result = lib.run_tool("on", "-n", "kthreadd")
        self.assertIn(result.code, (lib.NO_JEMALLOC, lib.GONE))  # a container has no such process

    def test_any_allocator(self):
        """explain and leak find processes whatever their allocator is; a list tells which have none."""
        name = self.unique_name()
        plain, other = self.sleeper(name, jemalloc=False), self.sleeper(name)
        for words in (("explain",), ("leak", "-d", "1s")):
            with self.subTest(words=words):
                result = lib.run_tool(*words, "-n", name)
                self.assert_failed(result, lib.USAGE, "-n %s matches 2 processes\n" % name, "none was touched")
                self.assertRegex(result.err, r"(?m)^ *%d +%d +sleep +none +- +- " % ((plain.pid,) * 2))
                self.assertRegex(result.err, r"(?m)^ *%d +%d +sleep +5\." % ((other.pid,) * 2))
                result = self.assert_ran(lib.run_tool(*words, "--json", "-n", name, "--all"))
                self.assertEqual([document["pid"] for document in documents(result)],
                                 sorted((plain.pid, other.pid)))
        self.assert_picks(other, "-n", name)
        result = lib.run_tool("explain", "-n", self.unique_name())
        self.assert_failed(result, lib.GONE, "no process matches", "processes matches")
        self.sleeper(name + "x", jemalloc=False)
        self.assert_ran(lib.run_tool("explain", "-n", name + "x"))
        self.sleeper(name + "x", jemalloc=False)
        for words in (("-n", name + "x"), ("--all", "-n", name + "x")):
            result = lib.run_tool("stats", *words)
            self.assert_failed(result, lib.NO_JEMALLOC, "2 processes match")
            typed = re.search(r"jeattach (explain --all [^;]+);", result.err).group(1)
            self.assertIn("2 targets: 2 done", self.assert_ran(lib.run_tool(*typed.split())).err)

    def test_every_process_of_a_cgroup(self):
        """--cgroup with explain: all that may be read, but no kernel thread, zombie or ancestor."""
        group = Hierarchy()
        self.addCleanup(group.remove)
        path = group.make("jeattach-any-%d" % os.getpid())
        plain, other = self.sleeper(jemalloc=False), self.sleeper()
        zombie = self.sleeper(jemalloc=False)
        for process in (plain, other, zombie):
            self.join(path, process)
        zombie.kill()
        self.assertTrue(lib.wait_until(lambda: lib.state_of(zombie.pid) == "Z"))
        result = self.assert_ran(lib.run_tool("explain", "--json", "--cgroup", path, "--all"))
        self.assertEqual(pids_of(result), sorted((plain.pid, other.pid)))
        result = self.assert_ran(lib.run_tool("status", "--json", "--cgroup", path, "--all"))
        self.assertEqual(pids_of(result), [other.pid])

    def test_own_line(self):
        """A name selects neither the tool nor its ancestors, whatever their names."""
        name = self.unique_name()
        script = 'unset LD_PRELOAD; "$0" "$@"; exit $?'
        argv = [name, "-c", script, lib.TOOL, "on", "-n", name]
        env = lib.tool_environment({"LD_PRELOAD": jemalloc_library(), "MALLOC_CONF": CONF})
        options = {"executable": shutil.which("sh"), "env": env, "capture_output": True}
        done = subprocess.run(argv, text=True, timeout=lib.TOOL_TIMEOUT, **options)
        self.assertEqual(done.returncode, lib.GONE, done.stderr)
        self.assertIn("1 that started this jeattach can be chosen only by PID", done.stderr)
        other = self.sleeper(name)
        argv[4:5] = ["status", "--json", "--no-call"]
        done = subprocess.run(argv, text=True, timeout=lib.TOOL_TIMEOUT, **options)
        self.assertEqual(json.loads(done.stdout)["pid"], other.pid, done.stderr)

    def test_descendants(self):
        """-s: a process without jemalloc, and its descendants that have it."""
        script = 'LD_PRELOAD=$1 sleep 600 & (LD_PRELOAD=$1 sleep 600 & sleep 600; :) & wait'
        parent = self.process(["sh", "-c", script, "sh", jemalloc_library()], stdout=subprocess.PIPE,
                              env=lib.tool_environment({"MALLOC_CONF": CONF}))
        self.addCleanup(lambda: [os.kill(pid, signal.SIGKILL) for pid in children(parent.pid)])
        loaded = lambda: [pid for pid in children(parent.pid) if comm(pid) == "sleep" and
                          "/libjemalloc.so" in maps_of(pid) and lib.state_of(pid) == "S"]
        self.assertTrue(lib.wait_until(lambda: len(loaded()) == 2))
        wanted = sorted(loaded())
        result = self.assert_ran(lib.run_tool("on", "-s", parent.pid, "--json"))
        self.assertEqual(pids_of(result), wanted)
        result = lib.run_tool("on", "-s", parent.pid, "-n", "nosuch")
        self.assert_failed(result, lib.GONE, "-n nosuch -s %d" % parent.pid)

    # ---- cgroups and containers --------------------------------------------------------

    def in_mounts_of(self, path, *before):
        """A process with this file over /etc/hostname, as an engine starts it."""
        line = 'mount --bind "$0" /etc/hostname && exec env LD_PRELOAD="$1" "$2" 600'
        process = self.process([*before, "sh", "-c", line, path, jemalloc_library(), SLEEP],
                               stderr=subprocess.PIPE, env=lib.tool_environment())
        begun = lambda: process.poll() is not None or "/libjemalloc.so" in maps_of(process.pid)
        self.assertTrue(lib.wait_until(begun), "it does not begin")
        if process.poll() is not None:
            self.skipTest("no mounts here: " + process.stderr.read().decode().strip())
        return process

    def test_imitated_container(self):
        """Anybody can mount a file in namespaces of one's own; that makes nobody a member."""
        lib.require_root()
        digits = "".join(random.choices("0123456789abcdef", k=64))
        base = self.directory()
        os.chmod(base, 0o755)
        path = os.path.join(base, "containers", digits, "hostname")
        os.makedirs(os.path.dirname(path))
        with open(path, "w"):
            pass
        member = self.in_mounts_of(path, "unshare", "-m")
        stranger = self.in_mounts_of(path, "setpriv", "--reuid", "65534", "--regid", "65534",
                                     "--clear-groups", "unshare", "-Urm")
        # In a cgroup namespace of the tool's, as in a container, the cgroups say nothing.
        done = subprocess.run(["unshare", "-C", lib.TOOL, "ps", "--json", "--container", digits],
                              capture_output=True, timeout=lib.TOOL_TIMEOUT,
                              env=lib.tool_environment())
        if done.returncode != lib.OK:
            self.skipTest("no cgroup namespace here: %r" % done.stderr)
        listed = [row["pid"] for row in json.loads(done.stdout)["processes"]]
        self.assertNotIn(stranger.pid, listed)
        self.assertEqual(listed, [member.pid])

    def test_imitated_group(self):
        """Whoever may make cgroups can give one the name of a container: it is told by its owner."""
        lib.require_root()
        groups = Hierarchy(("cgroup", "unified", "memory"))
        self.addCleanup(groups.remove)
        name = "docker-" + "".join(random.choices("0123456789abcdef", k=64)) + ".scope"
        paths = [groups.make("jt%d/%s/%s/init" % (os.getpid(), top, name))
                 for top in ("system", "user")]
        for path in paths[1], os.path.dirname(paths[1]):
            os.chown(path, 65534, 65534)
        member, stranger = self.sleeper(), self.sleeper()
        words = ("ps", "--json", "--container", name[7:-6])
        self.join(paths[1], stranger)
        result = lib.run_tool("on", "--container", name[7:-6])
        self.assertRegex(result.err, r"the cgroup of docker/\w{12} was made by uid 65534, who chose")
        self.join(paths[0], member)
        self.assertEqual(len(json.loads(lib.run_tool(*words).text)["processes"]), 2)
        for more in ((), ("--all",)):
            result = lib.run_tool("on", "--container", name[7:-6], *more)
            self.assert_failed(result, lib.USAGE, "several users have made a cgroup of docker/",
                               "uid 0", "uid 65534")
        self.join(groups.make("jt%d/other" % os.getpid()), stranger)
        result = self.assert_ran(lib.run_tool("on", "--container", name[7:-6]))
        self.assertNotIn("was made by", result.err)
        for process in member, stranger:
            lib.end_process(process)

    def join(self, path, process):
        with open(path + "/cgroup.procs", "w") as file:
            file.write(str(process.pid))

    def test_groups(self):
        """--cgroup and --container: real cgroups, with names like those of an engine."""
        lib.require_root()
        groups = Hierarchy()
        self.addCleanup(groups.remove)
        digits = "%04x" % random.randrange(1 << 16)
        ids = [digits + "".join(random.choices("0123456789abcdef", k=60)) for _ in range(2)]
        base = "jt%d" % os.getpid()
        paths = ["%s/docker/%s" % (base, ids[0]), "%s/docker/%s" % (base, ids[1])]
        inside = [self.sleeper(), self.sleeper()]
        for path, process in zip(paths, inside):
            with open(groups.make(path + "/init") + "/cgroup.procs", "w") as file:
                file.write(str(process.pid))
        first = inside[0]
        for words in (
            ("--container", ids[0]),
            ("--container", ids[0][:12]),
            ("--container", "docker://" + ids[0]),
            ("--cgroup", paths[0]),
            ("--cgroup", "/" + paths[0] + "/"),
            ("--cgroup", os.path.join(groups.root, paths[0])),
            ("--cgroup", "../%s/../%s/init" % (paths[1], ids[0])),
            ("--cgroup", base, "--container", ids[0]),
            ("--cgroup", base, "-s", first.pid),
        ):
            self.assert_picks(first, *words)
        result = lib.run_tool("on", "--cgroup", base)
        self.assert_failed(result, lib.USAGE, "matches 2 processes\n", "docker/" + ids[0][:12])
        result = lib.run_tool("on", "--container", digits)
        self.assert_failed(result, lib.USAGE, "several ids", ids[0], ids[1])
        result = self.assert_ran(lib.run_tool("on", "--cgroup", base, "--all", "--json"))
        self.assertEqual(pids_of(result), sorted(process.pid for process in inside))
        listed = json.loads(lib.run_tool("ps", "--json", "--container", digits).text)["processes"]
        self.assertEqual([row["container"] for row in sorted(listed, key=lambda row: row["pid"])],
                         [ids[i] for i in sorted((0, 1), key=lambda i: inside[i].pid)])
        self.assert_none(lib.GONE, "--cgroup", base + "/nosuch")
        self.assert_none(lib.GONE, "--cgroup", "../../../proc/self")
        self.assert_none(lib.GONE, "--cgroup", "/etc")
        self.assert_none(lib.GONE, "--container", "0" * 64)
        for process in inside:
            lib.end_process(process)

    # ---- several at once -------------------------------------------------------------------

    def test_each_fails_alone(self):
        """One that ended, one that is traced, one without jemalloc, one stopped; the others
        succeed. The results are in the order of the arguments. Without a call all succeed but
        those without jemalloc."""
        victims = [self.victim(), self.victim()]
        traced, plain, stopped = self.victim(), self.sleeper(jemalloc=False), self.sleeper()
        hold = self.process([os.path.join(lib.VICTIMS, "hold"), str(traced.pid)],
                            stdout=subprocess.PIPE)
        self.assertTrue(lib.wait_until(lambda: lib.tracer_of(traced.pid) == hold.pid))
        os.kill(stopped.pid, signal.SIGSTOP)
        self.assertTrue(lib.wait_until(lambda: lib.state_of(stopped.pid) == "T"))
        ended = self.sleeper(jemalloc=False)
        ended.kill()
        ended.wait()
        pids = [victims[1].pid, traced.pid, ended.pid, plain.pid, stopped.pid, victims[0].pid]
        result = lib.run_tool("on", "--json", "--call", *pids, victims[1].pid)
        self.assertEqual(result.code, lib.NO_SAFE_MOMENT, result)
        self.assertEqual(pids_of(result), [victims[1].pid, victims[0].pid])
        self.assertEqual(pids_of(result, failed=True), pids[1:-1])
        told = re.findall(r"(?m)^jeattach: (?:cannot .* process |victim\[)(\d+)", result.err)
        self.assertEqual([int(pid) for pid in told], pids, result)
        self.assertIn("already traced by %d (hold)" % hold.pid, result.err)
        self.assertTrue(result.err.endswith(
            "jeattach: 6 targets: 2 done, 1 ended, 1 not permitted, 1 without jemalloc, "
            "1 no safe point\n"), result)
        result = lib.run_tool("off", "--json", *pids)
        self.assertEqual(pids_of(result, failed=True), [ended.pid, plain.pid])
        for victim in victims:
            self.assert_unharmed(victim, slow=True)
        self.assertEqual(lib.state_of(stopped.pid), "T")

    def test_unreadable(self):
        """Another user's process of the same name is a target that fails, and is not left out."""
        lib.require_root()
        name = self.unique_name()
        theirs, own = self.sleeper(name), self.sleeper(name, **AS_NOBODY)
        tool = shutil.copy(lib.TOOL, self.directory())
        os.chmod(os.path.dirname(tool), 0o755)
        before = switches(theirs.pid)
        result = lib.run_tool("on", "-n", name, tool=tool, **AS_NOBODY)
        self.assert_failed(result, lib.USAGE, "matches 2 processes\n")
        self.assertRegex(result.err, r"(?m)^ *%d +%d +sleep +\? +\? +\? " % ((theirs.pid,) * 2))
        result = lib.run_tool("on", "-n", name, "--all", tool=tool, **AS_NOBODY)
        self.assertEqual(result.code, lib.NOT_PERMITTED, result)
        self.assertEqual(result.text, "sleep[{0}] prof.active: false -> true\n"
                         "sleep[{0}] threads: 1 of 1 sample\n".format(own.pid))
        self.assertIn("process %d (sleep)" % theirs.pid, result.err)
        self.assertIn("2 targets: 1 done, 1 not permitted", result.err)
        result = lib.run_tool("on", "-s", theirs.pid, tool=tool, **AS_NOBODY)
        self.assert_failed(result, lib.NOT_PERMITTED, "1 matching process")
        self.assertEqual(switches(theirs.pid), before)

    def test_order(self):
        """A slow target delays the output for the others, but not the work on them."""
        late, victim = self.late(), self.victim()
        tool = self.tool("dump", "--json", late.pid, victim.pid)
        self.assertTrue(lib.wait_until(lambda: victim.new_files()), "it waits for the slow one")
        late.stdin.close()
        result = self.finish(tool)
        self.let_go(late)
        self.assertEqual(pids_of(result), [late.pid, victim.pid], result)
        self.assertEqual(result.code, lib.OK)
        self.assert_unharmed(victim, slow=True)

    def test_parallel(self):
        """No more in parallel than requested: the second one starts after the first has ended."""
        lates = [self.late(), self.late()]
        tool = self.tool("on", "--call", "--parallel", 1, *[late.pid for late in lates])
        self.assertTrue(lib.wait_until(lambda: workers_of(tool.pid)))
        tool.send_signal(signal.SIGINT)
        result = self.finish(tool)
        self.assertEqual(result.code, lib.INTERRUPTED, result)
        self.assertIn("2 targets: 1 interrupted, 1 not started\n", result.err)
        self.assertNotIn(str(lates[1].pid), result.err)
        self.let_go(*lates)

    def waiting(self, verb, lates, victims, *words):
        """Starts the tool and waits until it is done with the victims, and waits for the rest."""
        pids = [process.pid for process in lates + victims]
        tool = self.tool(verb, "--parallel", len(pids), "--timeout", "60s", *words, *pids,
                         start_new_session=True)
        halfway = lambda: all(victim.new_files() for victim in victims) and \
            len(workers_of(tool.pid)) == len(lates)
        self.assertTrue(lib.wait_until(halfway), "it does not get there")
        return tool

    def test_interrupted(self):
        """Ctrl-C at a terminal with 8 targets: finished ones stay so, the others are unchanged, and
        each has a result."""
        lates = [self.late() for _ in range(4)]
        victims = [self.victim() for _ in range(4)]
        before = [lib.snapshot(late.pid) for late in lates]
        tool = self.waiting("dump", lates, victims)
        workers = workers_of(tool.pid)
        # The terminal signals only the tool, which forwards the signal: no worker gets it twice.
        self.assertEqual([os.getpgid(pid) for pid in workers], workers)
        os.killpg(tool.pid, signal.SIGINT)
        result = self.finish(tool)
        self.assertEqual(result.code, lib.INTERRUPTED, result)
        self.assertIn("8 targets: 4 done, 4 interrupted\n", result.err)
        self.assertEqual([pid for pid in workers if os.path.exists("/proc/%d" % pid)], [])
        self.let_go(*lates)
        for late, snapshot in zip(lates, before):
            self.assertEqual(lib.snapshot_differences(late.pid, snapshot), [])
            self.assert_ran(lib.run_tool("on", "--call", late.pid))
        for victim in victims:
            self.assert_unharmed(victim, slow=True)

    def test_record_interrupted(self):
        """All record at the same time, however many; Ctrl-C ends each with its profile so far."""
        name, directory = self.unique_name(), self.directory()
        pids = sorted(self.sleeper(name).pid for _ in range(6))
        tool = self.tool("record", "-n", name, "--all", "-d", "600s", "-o", directory, "--json")
        # Reading the targets' state would disturb the tool: the tool's own state is read instead.
        waiting = lambda: sum(system_call(pid) == PPOLL for pid in workers_of(tool.pid)) == 6
        self.assertTrue(lib.wait_until(waiting, 40), "not all record")
        tool.send_signal(signal.SIGINT)
        result = self.finish(tool)
        self.assertEqual(result.code, lib.INTERRUPTED, result)
        self.assertIn("6 targets: 6 interrupted\n", result.err)
        self.assertEqual(pids_of(result), pids)
        self.assertEqual(len(os.listdir(directory)), 6)
        result = self.assert_ran(lib.run_tool("mallctl", "-q", "-n", name, "--all", "prof.active"))
        self.assertEqual(re.findall(r"(?m) = (.*)$", result.text), ["false"] * 6)

    def test_interrupted_at_any_moment(self):
        victims = [self.victim() for _ in range(8)]
        pids = [victim.pid for victim in victims]
        before = [lib.snapshot(pid) for pid in pids]
        codes = (lib.OK, lib.INTERRUPTED, -signal.SIGINT)
        for _ in range(12):
            tool = self.tool("mallctl", "--parallel", 4, *[w for pid in pids for w in ("-p", pid)],
                             "prof.active=true", "prof.active=false")
            with contextlib.suppress(subprocess.TimeoutExpired):
                tool.wait(random.uniform(0, 0.04))
            tool.send_signal(signal.SIGINT)
            self.assertIn(self.finish(tool).code, codes)
        for victim, snapshot in zip(victims, before):
            self.assertEqual(lib.snapshot_differences(victim.pid, snapshot), [])
            self.assert_unharmed(victim, slow=True)

    def test_worker_killed(self):
        """A worker killed from outside is reported; the others, and its target, continue."""
        lates, victims = [self.late()], [self.victim()]
        tool = self.waiting("dump", lates, victims, "--json")
        (worker,) = workers_of(tool.pid)
        os.kill(worker, signal.SIGKILL)
        result = self.finish(tool)
        self.assertEqual(result.code, lib.INTERNAL, result)
        self.assertIn("cannot get a result for process %d\n" % lates[0].pid, result.err)
        self.assertIn("worker process %d was killed by SIGKILL" % worker, result.err)
        self.assertIn("2 targets: 1 done, 1 failed\n", result.err)
        self.assertEqual(pids_of(result), [victims[0].pid])
        self.assertEqual(documents(result)[0]["error"]["code"], "lost")
        self.let_go(lates[0])
        self.assert_unharmed(victims[0], slow=True)

    def test_target_dies(self):
        """One target is killed in the middle."""
        lates, victims = [self.late(), self.late()], [self.victim()]
        tool = self.waiting("dump", lates, victims)
        lates[0].stdin.close()
        lates[0].kill()
        lates[0].wait()
        self.assertTrue(lib.wait_until(lambda: len(workers_of(tool.pid)) == 1))
        lates[1].stdin.close()
        result = self.finish(tool)
        self.let_go(lates[1])
        self.assertEqual(result.code, lib.GONE, result)
        self.assertIn("3 targets: 2 done, 1 ended\n", result.err)
        self.assert_unharmed(victims[0], slow=True)

    def test_tool_killed(self):
        """Its workers end, too, and leave nothing behind."""
        lates, victims = [self.late(), self.late()], [self.victim()]
        tool = self.waiting("dump", lates, victims)
        workers = workers_of(tool.pid)
        tool.kill()
        gone = lambda: not any(os.path.exists("/proc/%d" % pid) for pid in workers)
        self.assertTrue(lib.wait_until(gone), "workers stay")
        self.let_go(*lates)
        self.assert_unharmed(victims[0], slow=True)

    def test_stdout_that_is_full(self):
        victims = [self.victim(), self.victim()]
        with open("/dev/full", "wb") as full:
            result = lib.run_tool("on", *[victim.pid for victim in victims], stdout=full)
        self.assertEqual(result.code, lib.OUTPUT_FAILED, result)
        self.assertIn("cannot write the output", result.err)

    def test_of_one_process(self):
        """Options that several targets cannot share are refused before anything is touched."""
        name = self.unique_name()
        both = [self.sleeper(name), self.sleeper(name)]
        file = os.path.join(self.directory(), "x.heap")
        for words in (("dump", "-o", file), ("dump", "-o", "-"), ("dump", "-f", "text"),
                      ("dump", "--path", file), ("on", "--thread", "1")):
            for choice in (("-n", name, "--all"), [process.pid for process in both]):
                result = lib.run_tool(words[0], *words[1:], *choice, tool=lib.TRACED_TOOL)
                self.assert_failed(result, lib.USAGE, "one process")
                self.assertNotIn("call 1:", result.err)
                if file in words and words[1] == "-o":
                    self.assertIn("or a directory: -o %s/\n" % file, result.err)
        self.assertFalse(os.path.exists(file))

    def test_a_file_each(self):
        """-o with several targets: a directory, or a name with the pid in it. Existing files are
        never overwritten."""
        name = self.unique_name()
        both = sorted(self.sleeper(name).pid for _ in range(2))
        directory = self.directory()
        for output, pattern in (
            (directory, r"sleep-%d-\d+T\d+Z-\d+MiB\.heap"),
            (directory + "/", r"sleep-%d-\d+T\d+Z-\d+MiB(-\d+)?\.heap"),
            (directory + "/%n.%p.heap", r"sleep\.%d\.heap"),
            (directory + "/%n.%p.heap", r"sleep\.%d-1\.heap"),
        ):
            result = self.assert_ran(lib.run_tool("dump", "-n", name, "--all", "-o", output))
            for pid, path in zip(both, result.text.splitlines()):
                self.assertRegex(os.path.relpath(path, directory), r"\A%s\Z" % (pattern % pid))
                with open(path, "rb") as file:
                    self.assert_profile(file.read(), stacks=0)
        self.assertEqual(len(os.listdir(directory)), 8)
        for output in ("%P.heap", "%n.heap", "x.heap", "%p%q.heap"):
            result = lib.run_tool("dump", "-n", name, "--all", "-o", directory + "/" + output)
            self.assertEqual(result.code, lib.USAGE, result)
        self.assertEqual(len(os.listdir(directory)), 8)

    # ---- pid namespaces --------------------------------------------------------------------

    def test_pid_inside(self):
        """Both pids are printed, and the profile is at the printed path, under the name that
        jemalloc made from the inner pid."""
        if not shutil.which("unshare"):
            raise unittest.SkipTest("unshare is not installed")
        lib.require_root()
        directory = self.directory()
        conf = "%s,prof_prefix:/mnt/jeprof" % CONF
        inner = "mount -t tmpfs none /mnt && exec sleep 600"
        argv = ["unshare", "--mount", "--pid", "--fork", "--kill-child", "sh", "-c", inner]
        env = lib.tool_environment({"LD_PRELOAD": jemalloc_library(), "MALLOC_CONF": conf})
        outer = self.process(argv, env=env, stderr=subprocess.PIPE, cwd=directory)
        wanted = lambda: [p for p in children(outer.pid) if comm(p) == "sleep"]
        if not lib.wait_until(lambda: wanted() or outer.poll() is not None) or outer.poll():
            raise unittest.SkipTest("no namespaces: %s" % outer.stderr.read().decode().strip())
        pid = wanted()[0]
        self.assertTrue(lib.wait_until(lambda: lib.state_of(pid) == "S"))
        text = self.assert_ran(lib.run_tool("status", pid)).text
        self.assertIn("sleep[%d] (pid 1 in its container): profiling is" % pid, text)
        document = json.loads(self.assert_ran(lib.run_tool("on", "--json", pid)).text)
        self.assertEqual((document["pid"], document["ns_pid"]), (pid, 1))
        path = self.assert_ran(lib.run_tool("dump", pid)).text.strip()
        self.assertRegex(path, r"^/proc/%d/root/mnt/jeprof\.1\.0\.m0\.heap$" % pid)
        self.assertTrue(stat.S_ISREG(os.stat(path).st_mode))
        result = lib.run_tool("dump", "--path", "/nosuchdir/x", pid)
        self.assert_failed(result, lib.REFUSED, "%d (sleep, pid 1 in its container)" % pid)


if __name__ == "__main__":
    lib.main()
