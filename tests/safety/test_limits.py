"""Processes with limits or filters: the tool works, or names the cause, and never kills them."""

import contextlib
import os
import resource
import signal
import struct
import sys
import time

import safety
from safety import Skip, Table, Victim, lib, require

GROUPS = (
    ("/sys/fs/cgroup/memory", "memory.limit_in_bytes"),
    ("/sys/fs/cgroup/unified", "memory.max"),
    ("/sys/fs/cgroup", "memory.max"),
)
PLENTY = 64 << 20
CALLS = (("stats", "--full"), ("on", "--call"), ("off", "--call"))
IN_MEMORY = (("status",), ("on", "--no-call"), ("off", "--no-call"))


class Limits:
    def __init__(self, options):
        self.sabotage = options.sabotage
        self.victim = None

    def beats(self):
        with open(os.path.join(self.victim.directory, "beats"), "rb") as file:
            return struct.unpack("<QQ", file.read(16))

    def goes_on(self):
        start = self.beats()[0]
        lib.wait_until(lambda: self.beats()[0] >= start + 3 or not self.victim.alive(), 20)
        require(self.victim.alive(), "it died: %s", self.victim.process.returncode)
        require(self.beats()[0] >= start + 3, "it stands still")
        require(self.beats()[1] == 0, "it was disturbed %d times", self.beats()[1])

    def tool(self, verb, *words, codes=(lib.OK,)):
        if self.sabotage:
            # the end by an unexpected signal, or by a forbidden system call
            os.kill(self.victim.pid, signal.SIGSYS)
            time.sleep(0.05)
            return lib.Result((), codes[0], b"heap_v2/1\n\nMAPPED_LIBRARIES:\n", "cause", 0)
        result = safety.tool_ok(verb, self.victim.pid, *words, codes=codes)
        require(result.code == 0 or "\n  cause: " in result.err, "no cause: %s", result)
        return result

    def all_verbs(self, codes=(lib.OK,), plain=(lib.OK,)):
        """`plain`: the exit codes allowed for a dump to a file in the target."""
        seen = []
        for words in CALLS + IN_MEMORY:
            seen.append(self.tool(*words, codes=codes if words in CALLS else (lib.OK,)).code)
            self.goes_on()
        seen.append(self.streamed(codes))
        path = os.path.join(self.victim.directory, "heap")
        result = self.tool("dump", "--path", path, codes=plain)
        self.goes_on()
        note = "exit codes %s, plain dump %d" % (seen, result.code)
        cause = [line for line in result.err.splitlines() if "cause: " in line]
        return note + ("".join(cause) if result.code else "")

    def streamed(self, codes):
        result = self.tool("dump", "--call", "-o", "-", codes=codes)
        if result.code == 0:
            require(result.out.startswith(b"heap_v2/"), "no profile: %s", result)
            require(b"\nMAPPED_LIBRARIES:\n" in result.out, "no maps in it: %s", result.err)
        self.goes_on()
        return result.code

    @contextlib.contextmanager
    def run(self, *words, **options):
        with Victim("limits", *words, **options) as victim:
            self.victim = victim
            victim.answer("ready", timeout=60)
            self.goes_on()
            yield victim

    def check(self, *words, codes=(lib.OK,), plain=(lib.OK,)):
        with self.run(*words):
            return self.all_verbs(codes, plain)

    def descriptors(self):
        """All file descriptors in use: the profile must have its mappings all the same."""
        with self.run("descriptors", prepare=few_descriptors):
            for words in CALLS + IN_MEMORY:
                self.tool(*words)
                self.goes_on()
            self.streamed((lib.OK,))

    def memory(self):
        base, name = self.group()
        path = "%s/jeattach-safety.%d" % (base, os.getpid())
        os.mkdir(path)
        try:
            return self.in_group(path, name)
        finally:
            lib.wait_until(lambda: not lib.read_text(path + "/cgroup.procs"), 5)
            os.rmdir(path)

    def in_group(self, path, name):
        def join():
            with open(path + "/cgroup.procs", "w") as file:
                file.write(str(os.getpid()))

        os.environ["LIMITS_BYTES"] = str(PLENTY)
        with self.run("memory", prepare=join):
            used = int(lib.read_text(path + "/" + usage_name(name)))
            # some spare pages: the scratch area would not fit if all of it were touched
            with open(os.path.join(path, name), "w") as file:
                file.write(str(used + 48 * 4096))
            return self.all_verbs(codes=(0, 7), plain=(0, 7, 10))

    def group(self):
        for base, name in GROUPS:
            path = "%s/jeattach-probe.%d" % (base, os.getpid())
            with contextlib.suppress(OSError):
                os.mkdir(path)
                usable = os.path.exists(os.path.join(path, name))
                os.rmdir(path)
                if usable:
                    return base, name
        raise Skip("no memory controller")


def usage_name(limit_name):
    return "memory.current" if limit_name == "memory.max" else "memory.usage_in_bytes"


def few_descriptors():
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))


def main():
    table = Table(__doc__)
    limits = Limits(table.options)
    table.add("none", limits.check, "none")
    for what in ("exec", "unknown", "open"):
        for action in ("errno", "trap", "kill"):
            add_filter(table, limits, what, action)
    table.add("mdwe", limits.check, "mdwe")
    table.add("file_size", lambda: limits.check("file_size", plain=(lib.REFUSED,)))
    table.add("address_space", lambda: limits.check("address_space", codes=(7,), plain=(7,)))
    table.add("mappings", lambda: limits.check("mappings", codes=(0, 7), plain=(0, 7, 10)))
    table.add("descriptors", limits.descriptors)
    table.add("memory", limits.memory)
    return table.run()


def add_filter(table, limits, what, action):
    """A dump to a file is an open by the target: if the filter punishes it, only -o is tried."""

    def check():
        with limits.run(what, action):
            if what != "open" or action == "errno":
                plain = (lib.REFUSED,) if what == "open" else (lib.OK,)
                return limits.all_verbs(plain=plain)
            for words in CALLS + IN_MEMORY:
                limits.tool(*words)
                limits.goes_on()
            limits.streamed((lib.OK,))
            return "without a plain dump"

    table.add("seccomp_%s_%s" % (what, action), check)


if __name__ == "__main__":
    sys.exit(main())
