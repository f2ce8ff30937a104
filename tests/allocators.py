"""tests/victims/allocator.c, or another program of that protocol, with each release of jemalloc."""

import os
import re
import subprocess

import lib
import releases

CONF = "prof:true,prof_active:false,lg_prof_sample:12"
# Shared libraries, and the same releases under a prefix in a static program.
VERSIONS = ("5.2.1", "5.3.0", "5.3.1")
LINKS = ("shared", "static")
CELLS = [(version, link) for version in VERSIONS for link in LINKS]


class Allocator:
    """One process, controlled by lines on its stdin: `ask` sends one."""

    def __init__(self, directory, argv, env, conf, words=()):
        self.directory = directory
        self.errors = os.path.join(directory, "stderr")
        with open(self.errors, "wb") as errors:
            self.process = subprocess.Popen(
                argv + [str(word) for word in words],
                env=lib.tool_environment(dict(env, MALLOC_CONF=conf) if conf else env),
                cwd=directory,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.pid = self.process.pid
        if self.process.stdout.readline() != "ready\n":
            said = lib.read_text(self.errors)
            self.stop()
            raise AssertionError("the allocator does not start: %s" % said)

    def ask(self, line):
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        answer = self.process.stdout.readline()
        if answer != "ok\n":
            raise AssertionError("%r was answered by %r" % (line, answer))

    def own_stats(self, options):
        """The output of malloc_stats_print, made by the process itself."""
        path = os.path.join(self.directory, "own-stats")
        self.ask("stats %s %s" % (options or "-", path))
        with open(path, "rb") as file:
            return file.read()

    def own_counters(self):
        """Returns (allocated, deallocated) by thread, as each worker itself reads them."""
        path = os.path.join(self.directory, "own-counters")
        self.ask("counters %s" % path)
        rows = [[int(word) for word in line.split()] for line in lib.read_text(path).splitlines()]
        return {row[0]: tuple(row[1:3]) for row in rows}

    def said(self):
        return lib.read_text(self.errors)

    def alive(self):
        return self.process.poll() is None

    def workers(self):
        """Returns the threads' ids by name."""
        found = {}
        for tid in lib.threads(self.pid):
            name = lib.read_text("/proc/%d/task/%d/comm" % (self.pid, tid)).strip()
            if name.startswith("worker-"):
                found[name] = tid
        return found

    def sampling_threads(self):
        """Returns the number of threads with samples: the lines tN of the profile's head."""
        result = lib.run_tool("dump", "-q", "-o", "-", self.pid)
        if result.code != lib.OK:
            raise AssertionError(result)
        head = result.out.decode(errors="replace").partition("\n@")[0]
        return sum(int(n) > 0 for n in re.findall(r"^  t\d+: (\d+):", head, re.M))

    def stop(self):
        lib.end_process(self.process)


class TestCase(lib.TestCase):
    def allocator(self, version, link="shared", conf=CONF, words=(), library=None,
                  program="allocator"):
        plain = [os.path.join(lib.VICTIMS, program)]
        if library:
            argv, env = plain, {"LD_PRELOAD": library}
        elif link == "static":
            argv, env = [releases.static_program(version, program)], {}
        elif link == "stripped":
            argv, env = [releases.stripped(releases.static_program(version, program))], {}
        else:
            argv, env = releases.command(version, plain)
        allocator = Allocator(self.directory(), argv, env, conf, words)
        allocator.name = "%s %s" % (version, link)
        self.addCleanup(allocator.stop)
        return allocator

    def assert_well(self, allocator):
        """The process is alive, not traced, still answers, and has printed nothing."""
        self.assertTrue(allocator.alive(), allocator.process.returncode)
        self.assertEqual(lib.tracer_of(allocator.pid), 0)
        self.assertEqual(allocator.said(), "")
        allocator.ask("work 10")
