"""Shared by the safety tests: victims, and a table of checks with a sabotage of each.

Every driver is a table of checks. It runs them with the tool, and exits with 1 if one fails. With
`--sabotage` something else than the tool disturbs the victims, and each check must fail.
"""

import argparse
import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

import lib

VICTIMS = os.path.abspath(
    os.environ.get("JEATTACH_SAFETY_VICTIMS", os.path.join(lib.ROOT, "build", "tests", "safety"))
)
CONF = "prof:true,prof_active:false,lg_prof_sample:12"
SYS_TGKILL = 234
_libc = ctypes.CDLL(None, use_errno=True)


class Failure(Exception):
    """A check has failed."""


class Skip(Exception):
    """A check cannot be made here."""


def require(condition, text, *values):
    if not condition:
        raise Failure(text % values if values else text)


def tgkill(pid, tid, number):
    _libc.syscall(SYS_TGKILL, pid, tid, int(number))


def hold_thread(pid, tid, number, seconds):
    """Acts as a careless debugger: sends the thread a signal, and stops all threads for a while."""
    tgkill(pid, tid, number)
    os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(pid, signal.SIGCONT)


class Victim:
    """A process that reads commands and writes answers, line by line."""

    def __init__(self, name, *arguments, conf=CONF, prepare=None, wrapper=(), user=None):
        self.directory = tempfile.mkdtemp(prefix="jeattach-safety.")
        program = os.path.join(VICTIMS, name)
        if user is not None:  # this user may not be able to read the build directory
            os.chown(self.directory, user, user)
            program = shutil.copy(program, self.directory)
        env = lib.tool_environment({"MALLOC_CONF": conf + ",prof_prefix:%s/p" % self.directory})
        argv = list(wrapper) + [program] + [str(word) for word in arguments]
        self.process = subprocess.Popen(
            argv,
            env=env,
            cwd=self.directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
            preexec_fn=prepare,
            user=user,
            group=user,
            extra_groups=None if user is None else [],
        )
        self.pid = self.process.pid

    def tell(self, *words):
        self.process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self.process.stdin.flush()

    def answer(self, key=None, timeout=20):
        """Returns the words of the next line, after `key` if it is given."""
        timer_end = time.monotonic() + timeout
        while not self._readable(timer_end - time.monotonic()):
            raise Failure("no answer from the victim within %d s" % timeout)
        words = self.process.stdout.readline().split()
        if not words:
            self.process.wait()
            raise Failure("the victim ended: %s" % self.process.returncode)
        if words[0] == "skip":
            raise Skip(" ".join(words[1:]) or "not possible here")
        if key is None:
            return words
        require(words[0] == key, "the victim says %s", words)
        return words[1:]

    def _readable(self, seconds):
        import select

        return select.select([self.process.stdout], [], [], max(seconds, 0))[0]

    def ask(self, *words, key=None, timeout=20):
        self.tell(*words)
        return self.answer(key, timeout)

    def alive(self):
        return self.process.poll() is None

    def end(self):
        if self.process.poll() is None:
            with contextlib.suppress(OSError):
                os.kill(self.pid, signal.SIGCONT)
        lib.end_process(self.process)
        shutil.rmtree(self.directory, True)

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        self.end()


def is_asleep(pid, tid):
    with contextlib.suppress(OSError):
        text = lib.read_text("/proc/%d/task/%d/stat" % (pid, tid))
        return text.rpartition(")")[2].split()[0] == "S"
    return False


def tool(*words, **options):
    result = lib.run_tool(*words, **options)
    require(result.code is not None, "the tool hangs: %s", result)
    require(result.code >= 0, "the tool was killed: %s", result)
    require(result.code != lib.INTERNAL, "internal error: %s", result)
    return result


def tool_ok(*words, codes=(0,), **options):
    result = tool(*words, **options)
    require(result.code in codes, "%s", result)
    return result


class Table:
    """Named checks: functions that raise Failure or Skip."""

    def __init__(self, doc, **flags):
        """flags: more options of this driver, with their help."""
        parser = argparse.ArgumentParser(description=doc.splitlines()[0])
        parser.add_argument("--only", action="append", default=[], metavar="NAME")
        parser.add_argument("--long", action="store_true", default=bool(os.environ.get("LONG")))
        parser.add_argument("--sabotage", action="store_true", help="each check must fail")
        parser.add_argument("--list", action="store_true")
        for name, text in flags.items():
            parser.add_argument("--" + name, action="store_true", help=text)
        self.options = parser.parse_args()
        self.rows = []

    def add(self, name, check, *arguments, sabotage=True):
        """sabotage=False: the check is of the tool's output, so that sabotage cannot break it."""
        self.rows.append((name, check, arguments, sabotage))

    def _selected(self):
        only = self.options.only
        for row in self.rows:
            if (not only or row[0] in only) and (row[3] or not self.options.sabotage):
                yield row

    def _one(self, check, arguments):
        try:
            note = check(*arguments)
            return "ok", note or ""
        except Skip as reason:
            return "skip", str(reason)
        except Failure as failure:
            return "FAIL", str(failure)
        except Exception:
            return "ERROR", traceback.format_exc()

    def run(self):
        lib.raise_on_signals()
        if self.options.list:
            print("\n".join(row[0] for row in self.rows))
            return 0
        if not self.options.sabotage and not os.access(lib.TOOL, os.X_OK):
            sys.exit("the tool is not there: %s" % lib.TOOL)
        counts = {"ok": 0, "skip": 0, "FAIL": 0, "ERROR": 0}
        for name, check, arguments, _ in self._selected():
            begun = time.monotonic()
            verdict, note = self._one(check, arguments)
            if self.options.sabotage and verdict == "ok":
                verdict, note = self._one(check, arguments)  # the sabotage may have come too late
            if self.options.sabotage and verdict in ("ok", "FAIL"):
                verdict = "FAIL" if verdict == "ok" else "ok"
                note = note.split("\n")[0]
                note = "the sabotage is not noticed: " + note if verdict == "FAIL" else note
            counts[verdict] += 1
            print("%-5s %-28s %6.2f s  %s" % (verdict, name, time.monotonic() - begun, note))
            sys.stdout.flush()
        counts["FAIL"] += counts["ERROR"]
        print("%(ok)d passed, %(FAIL)d failed, %(skip)d skipped" % counts)
        if counts["FAIL"]:
            return 1
        if counts["ok"]:
            return 0
        print("SKIP: nothing could be run")
        return lib.SKIPPED
