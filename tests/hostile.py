"""Shared by the tests of hostile processes: starting them, and running the tool within bounds."""

import contextlib
import ctypes
import json
import os
import re
import shutil
import struct
import subprocess
import tempfile
import time

import lib

CONTROLS = re.compile(
    rb"[\x00-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f\xad]|\xd8\x9c|\xe2\x80[\x8b-\x8f\xa8-\xae]"
    rb"|\xe2\x81[\xa0-\xaf]|\xef\xbb\xbf")
DOCUMENTED = {
    lib.OK, lib.USAGE, lib.GONE, lib.NOT_PERMITTED, lib.NO_JEMALLOC, lib.PROFILING_OFF,
    lib.NO_SAFE_MOMENT, lib.CALL_LATE, lib.OUTPUT_FAILED, lib.REFUSED,
}
SANITIZED = "ASAN_OPTIONS" in os.environ
WITHOUT_MAP_FILES = ["setpriv", "--bounding-set=-sys_admin,-checkpoint_restore"]
MIB = 1 << 20


class Bounded(lib.Result):
    """A result, and the largest resident size of the tool in bytes."""

    peak = 0


def limit(plain):
    """A limit in bytes on the tool's memory: larger for the sanitizer, with its shadow and
    quarantine."""
    return 2 * plain + 1024 * MIB if SANITIZED else plain


def run_bounded(*args, timeout=120, before=(), env=None, preexec=None, cwd=None):
    """Runs the tool; measures its memory, and keeps its output in files, whatever its size."""
    words = [*before, lib.TOOL, *(str(word) for word in args)]
    started = time.monotonic()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        pid = os.fork()
        if pid == 0:
            become(words, out, err, env, preexec, cwd)
        code, peak = collect(pid, started + timeout)
        out.seek(0)
        err.seek(0)
        seconds = time.monotonic() - started
        text = err.read().decode(errors="replace")
        result = Bounded([str(word) for word in args], code, out.read(), text, seconds)
    result.peak = peak
    if "Sanitizer" in result.err or "runtime error:" in result.err:
        raise AssertionError("a sanitizer reports: %s" % (result,))
    return result


def become(words, out, err, env, preexec, cwd):
    """In the child: executes the tool."""
    try:
        os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
        os.dup2(out.fileno(), 1)
        os.dup2(err.fileno(), 2)
        if cwd:
            os.chdir(cwd)
        if preexec:
            preexec()
        os.execvpe(words[0], words, lib.tool_environment(env))
    finally:
        os._exit(127)


def collect(pid, deadline):
    """Returns the exit code, None if it was killed, and the peak of its memory."""
    while True:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), usage.ru_maxrss * 1024
        if time.monotonic() > deadline:
            os.kill(pid, 9)
            os.wait4(pid, 0)
            return None, 0
        time.sleep(0.002)


OPENAT2, SET_SECCOMP = 437, (157, 22)  # prctl(PR_SET_SECCOMP)


def refuse_calls(err, *calls):
    """For a child before exec: these system calls fail with that errno. A call is a number, or a
    pair of it and the first argument."""
    load, jump, answer, allow = 0x20, 0x15, 0x06, 0x7FFF0000
    no_new_privs, seccomp, filter_mode = 38, 22, 2
    rows = []
    for call in calls:
        number, first = call if isinstance(call, tuple) else (call, None)
        rows += [(load, 0, 0, 0), (jump, 0, 1 if first is None else 3, number)]
        rows += [] if first is None else [(load, 0, 0, 16), (jump, 0, 1, first)]
        rows += [(answer, 0, 0, 0x50000 | err)]
    rows += [(answer, 0, 0, allow)]
    code = ctypes.create_string_buffer(b"".join(struct.pack("<HBBI", *row) for row in rows))
    program = ctypes.create_string_buffer(
        struct.pack("<HxxxxxxQ", len(rows), ctypes.addressof(code)))
    libc = ctypes.CDLL(None, use_errno=True)

    def apply():
        at = ctypes.addressof(program) if code else 0  # both must still exist
        for words in ((no_new_privs, 1, 0, 0, 0), (seccomp, filter_mode, at, 0, 0)):
            if libc.prctl(*map(ctypes.c_ulong, words)):
                raise OSError(ctypes.get_errno(), "prctl")

    return apply


class Opens:
    """Notices by inotify(7) that a file is opened; O_PATH does not count."""

    IN_OPEN = 0x20

    def __init__(self, path):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        if self.fd < 0 or libc.inotify_add_watch(self.fd, os.fsencode(path), self.IN_OPEN) < 0:
            raise OSError(ctypes.get_errno(), "inotify")

    def seen(self):
        try:
            return bool(os.read(self.fd, 4096))
        except BlockingIOError:
            return False

    def close(self):
        os.close(self.fd)


class TestCase(lib.TestCase):
    def path(self, *parts):
        if not hasattr(self, "base"):
            self.base = self.directory()
        path = os.path.join(self.base, *parts)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return path

    def close_memory(self):
        """The tool may not open /proc/PID/mem of another user's process from now on: no read
        through that file waits for a page (tests/victims/nobody.h)."""
        lib.require_root()
        if not shutil.which("setpriv"):
            self.skipTest("setpriv is not installed")
        tool = self.path("jeattach")
        with open(tool, "w") as file:
            file.write("#!/bin/sh\nexec setpriv --bounding-set=-dac_override,-dac_read_search %s "
                       '"$@"\n' % lib.TOOL)
        os.chmod(tool, 0o755)
        self.addCleanup(setattr, lib, "TOOL", lib.TOOL)
        lib.TOOL = tool

    def install(self, *parts):
        """A copy of the program with its library beside it; returns their directory."""
        for name in ("hostile", "libhostile_allocator.so"):
            if not os.path.exists(self.path(*parts, name)):
                shutil.copy(os.path.join(lib.VICTIMS, name), self.path(*parts, name))
        return self.path(*parts)

    def hostile(self, *words, program=None, argv0=None, cwd=None, before=(), **env):
        """Starts one, and waits until it is ready."""
        program = program or os.path.join(lib.VICTIMS, "hostile")
        argv = [*before, argv0 or program, *words]
        process = self.process(
            argv, executable=None if before else program, stdout=subprocess.PIPE,
            stdin=subprocess.DEVNULL, cwd=cwd or self.path("."), env={**os.environ, **env})
        line = process.stdout.readline()
        if process.poll() == lib.SKIPPED or line not in (b"ready\n", b"opened\n"):
            self.assertEqual(process.wait(), lib.SKIPPED, line)
            self.skipTest(line.decode().strip())
        self.assertEqual(line, b"ready\n")
        return process

    def assert_bounded(self, result, memory=256 * MIB):
        """It ended on its own, with a documented code and in bounded memory."""
        self.assertIn(result.code, DOCUMENTED, result)
        self.assertLess(result.peak, limit(memory), result)
        if result.code != lib.OK:
            self.assertTrue(result.err.startswith("jeattach: "), result)
        self.assert_clean(result)
        return result

    def assert_clean(self, result):
        """Nothing on which a terminal acts."""
        self.assertIsNone(CONTROLS.search(result.out), result)
        self.assertIsNone(CONTROLS.search(result.err.encode()), result)
        if "--json" in result.args:
            self.json_objects(result.out)

    def json_objects(self, out):
        """One document, or one a line for several targets."""
        with contextlib.suppress(json.JSONDecodeError):
            return [json.loads(out)]
        return [json.loads(line) for line in out.splitlines()]

    def assert_untraced(self, process):
        self.assertIsNone(process.poll())
        self.assertEqual(lib.tracer_of(process.pid), 0)
