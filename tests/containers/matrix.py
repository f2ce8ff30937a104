"""Who may do what: every kind of attacker with every verb on every kind of target.

Each cell has the outcome by the kernel's rules: the verbs work, or they are refused with the one
cause that applies. The rules are those of __ptrace_may_access (kernel/ptrace.c): (1) the tool has
all of the target's user and group ids, or CAP_SYS_PTRACE over the target's user namespace; (2) the
target is dumpable, or that capability; (3) the target has no capability that the tool lacks,
in the same user namespace, or that capability (cap_ptrace_access_check).
"""

import json
import os
import re
import sys
from concurrent.futures import ThreadPoolExecutor

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import boxes  # noqa: E402
import cgroups  # noqa: E402
from boxes import CHECKPOINT_RESTORE, ENGINE_CAPS, SYS_PTRACE, lib  # noqa: E402

STRANGER = 61111  # a user who owns nothing else
MAPPED = 100000  # the first id of a user namespace

WORKS = "works"
# A refusal: the exit code and a part of the cause.
UID = (lib.NOT_PERMITTED, r"another user")
CAPS = (lib.NOT_PERMITTED, r"capabilit")
DUMPABLE = (lib.NOT_PERMITTED, r"dumpable")
NAMESPACE = (lib.NOT_PERMITTED, r"user namespace")
SECCOMP = (lib.NOT_PERMITTED, r"seccomp")
FROZEN = (lib.NO_SAFE_MOMENT, r"frozen")

VERBS = (
    ("on", "--call"),
    ("off", "--call"),
    ("dump",),
    ("dump", "--call", "-o", "-"),
    ("status",),
    ("stats", "--full"),
    ("mallctl", "opt.lg_prof_sample"),
)
# They read memory and write one byte: they need the rights of an attach, and no ptrace(2).
WITHOUT_A_CALL = (("on",), ("off",), ("dump", "-o", "-"))


def attackers(root, container):
    """Starts the tool as each kind of attacker would; all but the first in an own root."""
    uid = container.uid
    other = 0 if uid else STRANGER
    with_caps = lambda user, caps: ["--uid", user, "--caps", "%x" % caps]
    sidecar = lambda *options: boxes.Sidecar(root, container, options)
    return {
        "host root": boxes.Host(container),
        "same uid": sidecar(*with_caps(uid, 0)),
        "no capability": sidecar(*with_caps(STRANGER, 0)),
        "SYS_PTRACE, same uid": sidecar(*with_caps(uid, SYS_PTRACE)),
        "SYS_PTRACE, other uid": sidecar(*with_caps(other, SYS_PTRACE)),
        "SYS_PTRACE and CHECKPOINT_RESTORE": sidecar(
            *with_caps(0, SYS_PTRACE | CHECKPOINT_RESTORE)),
        "own user namespace": sidecar("--uid-map", uid),
        "own seccomp, EPERM": sidecar("--filter", "untraced"),
        "own seccomp, ENOSYS": sidecar("--filter", "unknown"),
    }


def expected(**differing):
    """Returns the column of one target: the usual outcome, and exceptions by the first word of a
    row."""
    row = {
        "host root": WORKS,
        "same uid": WORKS,  # rule 1: the same ids; 2: dumpable; 3: no capabilities
        "no capability": UID,  # rule 1
        "SYS_PTRACE, same uid": WORKS,  # the capability satisfies all three
        "SYS_PTRACE, other uid": WORKS,
        "SYS_PTRACE and CHECKPOINT_RESTORE": WORKS,
        "own user namespace": NAMESPACE,  # rule 3: capabilities of another namespace do not count
        "own seccomp, EPERM": SECCOMP,  # its own filter refuses ptrace(2), regardless of its rights
        "own seccomp, ENOSYS": SECCOMP,
    }
    for name, result in differing.items():
        row[name.replace("_", " ")] = result
    return row


class Matrix(boxes.TestCase):
    """All attackers on one target: creating a target takes longer than attaching."""

    def verify(self, container, table, plain=None, runs=True):
        """Checks all cells of one target. plain: why a dump without -o fails."""
        self.runs = runs
        sidecars = attackers(self.sidecar_root(), container)
        self.assertEqual(list(sidecars), list(table))
        self.reference, self.plain = None, plain
        for name, result in table.items():
            with self.subTest(attacker=name):
                self.verify_cell(container, sidecars[name], result)
                print("%-34s %s" % (name, "works" if result is WORKS else result[1]), flush=True)

    def verify_cell(self, container, attacker, result):
        if result is WORKS:
            self.verify_works(container, attacker)
        else:
            self.verify_refused(container, attacker, *result)
        if lib.tracer_of(container.pid):
            self.fail("still traced")
        if self.runs:
            self.assert_unharmed(container, slow=True)

    # ---- cells that work ----

    def verify_works(self, container, attacker):
        before = container.tree()
        self.verify_stream(attacker, "--call")
        self.verify_stream(attacker, "--no-call")
        self.verify_answers(attacker)
        self.assertEqual(container.tree(), before, "something was created or changed")
        if self.plain:
            result = attacker.run("dump", attacker.target)
            self.assert_failed(result, lib.REFUSED, *self.plain)
        else:
            self.verify_plain(container, attacker)

    def verify_stream(self, attacker, way):
        """Every attacker gets a profile with the same samples, in both ways."""
        result = self.assert_ran(attacker.run("dump", way, attacker.target, "-o", "-"))
        self.assert_profile(result.out, 60)
        samples = result.out.partition(b"\nMAPPED_LIBRARIES:\n")[0]
        if self.reference is None:
            self.reference = samples
        self.assertEqual(samples, self.reference)

    def verify_answers(self, attacker):
        pid = attacker.target
        ran = lambda *words: self.assert_ran(attacker.run(*words)).text
        told = json.loads(ran("status", "--json", pid))
        self.assertEqual([told["pid"], told["opt.prof"], told["prof.active"]], [pid, True, False])
        self.assertRegex(ran("on", pid), "^prof.active: false -> true\nthreads: ")
        self.assertEqual(ran("mallctl", pid, "opt.lg_prof_sample", "prof.active"),
                         "opt.lg_prof_sample = %d\nprof.active = true\n" % boxes.SAMPLE)
        self.assertEqual(ran("off", pid, "--call"), "prof.active: true -> false\n")
        self.assertRegex(ran("on", pid, "--call"), "^prof.active: false -> true\nthreads: ")
        self.assertEqual(ran("off", pid), "prof.active: true -> false\n")
        self.assertRegex(ran("stats", pid), r"(?m)^ +(in use|own data) +[\d.]+ [KM]iB ")
        self.assertRegex(ran("dump", pid, "-o", "-", "-f", "folded"), r"(?m)\bsite_\d;.* \d+$")
        if not isinstance(attacker, boxes.Host):  # sees the processes of other tests too
            rows = json.loads(ran("ps", "--json"))["processes"]
            self.assertIn(pid, [row["pid"] for row in rows])

    def verify_plain(self, container, attacker):
        """The path is printed as the target sees it and as it opens from where the tool runs."""
        told = json.loads(self.assert_ran(attacker.run("dump", "--json", attacker.target)).text)
        self.assertRegex(told["target_path"], r"^/tmp/jeprof\.\d+\.\d+\.m\d+\.heap$")
        here = "/proc/%d/root%s" % (container.pid, told["target_path"])
        self.assertEqual(told["path"], "/proc/%d/root%s" % (attacker.target, told["target_path"]))
        with open(here, "rb") as file:
            self.assert_profile(file.read(), 60)
        report = self.assert_ran(attacker.run("report", told["path"]))
        self.assertRegex(report.text, r"(?m)^sampled: .*[\d.]+ [KM]iB in use, \d+ objects?, \d+ stacks?$")
        self.assertRegex(report.text, r"(?m) site_\d$")  # the binary is found below that root
        os.unlink(here)

    # ---- cells that do not ----

    def verify_refused(self, container, attacker, code, cause):
        before = container.tree()
        readable = (code, cause) in (SECCOMP, FROZEN)
        verbs = VERBS if readable else VERBS + WITHOUT_A_CALL
        words = [(verb[0], attacker.target) + verb[1:] + ("--timeout", "1") for verb in verbs]
        with ThreadPoolExecutor(len(words)) as pool:
            results = list(pool.map(lambda verb: attacker.run(*verb), words))
        for result in results:
            self.verify_refusal(result, code, cause, readable)
        if readable:
            self.verify_memory(attacker)
        self.assertEqual(container.tree(), before, "something was created or changed")

    def verify_memory(self, attacker):
        """What makes no call works all the same."""
        for verb, active in (("on", "true"), ("off", "false")):
            result = self.assert_ran(attacker.run(verb, "--no-call", attacker.target))
            self.assertRegex(result.text, r"\Aprof\.active: .*(-> %s|\(unchanged\))\n(threads: .*\n)?\Z" % active)
        self.verify_stream(attacker, "--no-call")

    def verify_refusal(self, result, code, cause, readable):
        """`status` also prints what can be read without an attach, which may be all."""
        told = result.err
        if "status" in result.args and readable:
            self.assertEqual(result.code, lib.OK, result)
            self.assertIn("\nmemory: readable: dump -o, record, leak, ", result.text)
        else:
            self.assertEqual(result.code, code, result)
        if "status" in result.args and result.out:
            told = result.text
        else:
            self.assert_failed(result, code)
        causes = re.findall(r"(?m)^(?:  cause|attach: refused): (.*)$", told)
        self.assertEqual(len(causes), 1, result)
        self.assertRegex(causes[0], cause, result)

    # ---- the targets ----

    def test_default(self):
        """Root of a container, with the default capabilities and filter of engines."""
        container = self.container(
            "--new-pid", "--new-ipc", "--caps", "%x" % ENGINE_CAPS, "--filter", "engine",
            prefix="/tmp/jeprof")
        self.verify(container, expected(same_uid=CAPS))  # rule 3

    def test_uid_1000_read_only(self):
        container = self.container(
            "--new-pid", "--new-ipc", "--uid", "1000", "--caps", "0", "--read-only",
            "--tmpfs", "tmp", uid=1000, prefix="/tmp/jeprof")
        self.verify(container, expected())

    def test_user_namespace(self):
        """Root of a user namespace. Rule 3 for its own id on the host: another namespace."""
        container = self.container(
            "--new-pid", "--new-ipc", "--uid-map", str(MAPPED), "--caps", "%x" % ENGINE_CAPS,
            "--tmpfs", "tmp", uid=MAPPED, prefix="/tmp/jeprof")
        self.verify(container, expected(same_uid=NAMESPACE))
        self.verify_inside_user_namespace(container)

    def verify_inside_user_namespace(self, container):
        """Sidecars in that user namespace: the same rules, with the capabilities there."""
        root = self.sidecar_root()
        for caps, result in ((SYS_PTRACE, WORKS), (SYS_PTRACE | CHECKPOINT_RESTORE, WORKS),
                             (0, CAPS)):
            with self.subTest(attacker="in the user namespace", caps="%x" % caps):
                inside = boxes.Sidecar(
                    root, container, ["--join-user", container.pid, "--caps", "%x" % caps])
                self.verify_cell(container, inside, result)

    def test_distroless(self):
        """Only the program and its libraries, nothing writable, no rights, a filter."""
        container = self.container(
            "--new-pid", "--new-ipc", "--uid", "65532", "--caps", "0", "--read-only",
            "--no-new-privs", "--filter", "engine", uid=65532)
        self.verify(container, expected(), plain=("/jeprof.", "EROFS"))

    def test_not_dumpable(self):
        container = self.container(
            "--new-pid", "--new-ipc", "--uid", "1000", "--caps", "0", "--read-only",
            "--tmpfs", "tmp", uid=1000, prefix="/tmp/jeprof", arguments=("--not-dumpable",))
        self.verify(container, expected(same_uid=DUMPABLE))  # rule 2

    def test_chroot(self):
        """maps shows paths from the root of the mount namespace, not from the target's root."""
        container = self.container(
            "--new-pid", "--new-ipc", "--chroot", "--uid", "1000", "--caps", "0", "--read-only",
            "--tmpfs", "tmp", uid=1000, prefix="/tmp/jeprof")
        self.verify(container, expected())

    def test_frozen(self):
        """No thread can be stopped. Attackers without rights get the refusal of rights."""
        for freeze in (cgroups.frozen, cgroups.frozen_unified):
            container = self.container(
                "--new-pid", "--new-ipc", "--uid", "1000", "--caps", "0", "--read-only", uid=1000)
            table = {name: FROZEN if result is WORKS else result
                     for name, result in expected().items()}
            with freeze(container.pid):
                self.verify(container, table, runs=False)
            self.assert_unharmed(container, slow=True)


if __name__ == "__main__":
    lib.main()
