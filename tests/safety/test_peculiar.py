"""Processes in which one thread differs from the others: by a seccomp filter, by syscall user
dispatch, by its files or its root. /proc of the first thread is not right for that thread.
"""

import contextlib
import os
import random
import shutil
import signal
import struct
import sys
import tempfile

import safety
from safety import Skip, Table, Victim, lib, require

SHORT = ("--timeout", "500ms")


class Peculiar:
    def __init__(self, options):
        self.sabotage = options.sabotage
        self.long = options.long
        self.victim = None
        self.tid = None
        self.last = None  # the output of the tool

    # ---- the victim ----

    @contextlib.contextmanager
    def run(self, mode, *arguments, user=None):
        with Victim("peculiar", mode, *arguments, user=user) as victim:
            self.victim = victim
            self.tid = int(victim.answer("ready", timeout=60)[0])
            yield victim

    def beats(self):
        with open(os.path.join(self.victim.directory, "beats"), "rb") as file:
            return struct.unpack("<QQQ", file.read(24))

    def goes_on(self, rounds=3):
        """Checks that the process and its peculiar thread live."""
        start = self.beats()[0]
        lib.wait_until(
            lambda: self.beats()[0] >= start + rounds or not self.victim.alive(),
            0.5 if self.sabotage else 10,
        )
        require(self.victim.alive(), "it died: %s", self.victim.process.returncode)
        require(self.beats()[0] >= start + rounds, "the thread stands still")
        require(self.beats()[1] == 0, "it found %d faults", self.beats()[1])

    # ---- the tool ----

    def tool(self, *words, codes=(lib.OK,), told="", **options):
        if self.sabotage:
            os.kill(self.victim.pid, signal.SIGSTOP)
            self.last = lib.Result((), codes[0], b"{}", told, 0)
            return self.last
        result = self.last = safety.tool_ok(*words, codes=codes, **options)
        require(told in result.err, "not told: %s: %s", told, result)
        return result

    def all_verbs(self, *words):
        """Runs each verb on the default thread, or on the thread that the words name."""
        pid = self.victim.pid
        for verb in (("on", "--call"), ("stats", "--full"), ("dump",), ("dump", "--call", "-o", os.devnull), ("off", "--call")):
            self.tool(verb[0], pid, *verb[1:], *words)
            self.goes_on()

    # ---- checks ----

    def spares(self, mode):
        """Another thread makes the call; the peculiar one notices nothing."""
        with self.run(mode):
            self.all_verbs()

    def filtered_by_name(self):
        """--thread with the filtered thread: the verbs work that need neither files nor code."""
        with self.run("filtered") as victim:
            words = ("--thread", self.tid)
            self.tool("stats", "--full", victim.pid, *words)
            self.goes_on()
            self.tool("dump", "--call", victim.pid, "-o", os.devnull, *words)
            self.goes_on()

    def refuses(self, mode, told):
        """--thread with the peculiar thread: a refusal, and no harm."""
        with self.run(mode) as victim:
            words = ("--thread", self.tid) + SHORT
            for verb in (("on", "--call"), ("stats", "--full"), ("dump", "--call", "-o", os.devnull)):
                self.tool(verb[0], victim.pid, *verb[1:], *words, codes=(7,), told=told)
                self.goes_on()

    def filtered_late(self):
        """The thread installs its filter at a random moment of the attach."""
        seen = {}
        for _ in range(200 if self.long else 25):
            with self.run("filtered_late", random.randrange(2000, 14000)) as victim:
                code = self.tool("on", "--call", victim.pid, codes=(0, 7)).code
                self.goes_on(1)
                seen[code] = seen.get(code, 0) + 1
        return ", ".join("%d times %d" % (seen[code], code) for code in sorted(seen))

    def paths(self, mode, *arguments, path=None, inside=False):
        """The path that dump prints leads to the profile."""
        with self.run(mode, *arguments) as victim:
            path = os.path.join(victim.directory, path) if inside else path
            words = ("--thread", self.tid) + (("--path", path) if path else ())
            self.tool("on", "--call", victim.pid)
            result = self.tool("dump", victim.pid, *words)
            self.goes_on()
            with contextlib.suppress(OSError):
                with open(result.text.rstrip("\n"), "rb") as file:
                    require(file.read(8) == b"heap_v2/", "no profile: %s", result)
                return result.text.rstrip("\n")
            raise safety.Failure("no such file: %s" % (result,))

    def waits_for_nobody(self, *arguments):
        """The path is a FIFO in that thread's root, and absent in the others'."""
        with self.run("directory", *arguments) as victim:
            os.mkfifo(os.path.join(victim.directory, "inner", "heap"))
            words = ("--thread", self.tid, "--path", "heap") + SHORT
            self.tool("on", "--call", victim.pid)
            self.tool("dump", victim.pid, *words, codes=(10,), told="FIFO")
            self.goes_on()

    # ---- rights ----

    def closing(self):
        """The process becomes undumpable after the stop (prctl, PR_SET_DUMPABLE)."""
        user, tool = self.other_user()
        path = "heap"
        verbs = (("on", "--call"), ("stats", "--full"), ("dump",), ("dump", "--force", "--path", path))
        verbs += (("off", "--call"),)
        verbs += (("dump", "--call", "-o", os.devnull), ("stats", "--full"), ("mallctl", "epoch"))
        seen = {}
        with self.run("closing", user=user) as victim, tool as words:
            for verb in verbs * (20 if self.long else 3):
                self.tool(verb[0], victim.pid, *verb[1:], codes=(0, 4), **words)
                result = self.last
                if verb[0] == "dump" and "-o" not in verb and result.code == 0:
                    with open(result.text.rstrip("\n"), "rb") as file:
                        require(file.read(8) == b"heap_v2/", "no profile: %s", result)
                seen[result.code] = seen.get(result.code, 0) + 1
                self.goes_on(1)
            self.left_nothing(victim.pid)
            require(self.beats()[2] or 0 not in seen, "it never closed itself")
            return "%s, closed %d times" % (seen, self.beats()[2])

    @staticmethod
    def left_nothing(pid):
        fields = lib.status_fields(pid)
        require(int(fields["SigBlk"], 16) == 0, "blocked signals: %s", fields["SigBlk"])
        require(fields["TracerPid"] == "0", "traced by %s", fields["TracerPid"])
        left = [m for m in lib.mappings(pid) if m.perms == "r-xp" and not m.path]
        require(not left, "left behind: %s", left)

    def other_user(self):
        """Returns a user other than root for victim and tool, and the tool's path for it."""
        with contextlib.suppress(OSError):
            if lib.read_text("/proc/sys/kernel/yama/ptrace_scope").strip() != "0":
                raise Skip("kernel.yama.ptrace_scope is not 0")
        if os.getuid():
            return None, contextlib.nullcontext({})
        return lib.NOBODY, copied_tool(lib.NOBODY)


@contextlib.contextmanager
def copied_tool(user):
    directory = tempfile.mkdtemp(prefix="jeattach-safety.")
    try:
        os.chmod(directory, 0o755)
        tool = shutil.copy(lib.TOOL, directory)
        yield {"tool": tool, "user": user, "group": user, "extra_groups": [], "cwd": "/"}
    finally:
        shutil.rmtree(directory, True)


def main():
    table = Table(__doc__)
    peculiar = Peculiar(table.options)

    for mode in ("filtered", "filtered_more", "filtered_first", "strict", "dispatch"):
        table.add(mode, peculiar.spares, mode)
    table.add("filtered_by_name", peculiar.filtered_by_name)
    table.add("strict_by_name", peculiar.refuses, "strict", "strict seccomp")
    table.add("dispatch_by_name", peculiar.refuses, "dispatch", "syscall user dispatch")
    table.add("filtered_late", peculiar.filtered_late)
    table.add("files", peculiar.paths, "files")
    table.add("directory", lambda: peculiar.paths("directory", 0, path="heap"))
    table.add("root", lambda: peculiar.paths("directory", 1, path="/heap"))
    table.add("root_relative", lambda: peculiar.paths("directory", 1, path="heap"))
    table.add("mounts", lambda: peculiar.paths("mounts", path="inner/heap", inside=True))
    table.add("fifo", peculiar.waits_for_nobody, 0)
    table.add("fifo_in_root", peculiar.waits_for_nobody, 1)
    table.add("closing", peculiar.closing)
    return table.run()


if __name__ == "__main__":
    sys.exit(main())
