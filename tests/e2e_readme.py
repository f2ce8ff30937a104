"""README.md and docs/guide.md: every command runs as printed and answers as printed.

A page's commands run in one shell, in the order of the page, in new namespaces of processes and
networks: the redis-server that the page starts is the only one, and the ports are free. The reader
of README.md has one: it is started before.
A block marked `sh` has commands alone. In one marked `console` a line after `$ ` is a command, and
the lines below it are its output, compared by shape: numbers, sizes and names of functions may
differ; a line `...` stands for any lines. A command must succeed, unless the page shows its exit
code with `echo $?` right after it.
"""

import contextlib
import os
import re
import select
import shutil
import struct
import subprocess
import sys
import time
from collections import namedtuple

import lib

README = "README.md"
GUIDE = "docs/guide.md"
PICTURE = "docs/flame.png"
PAGES = [README] + sorted(
    os.path.join("docs", name) for name in os.listdir(os.path.join(lib.ROOT, "docs"))
    if name.endswith(".md"))
COMMAND_TIMEOUT = 30  # seconds

# The first word of each command that is not run, and the reason.
NOT_RUN = {
    "apt-get": "needs a network, and changes the machine; e2e_packaging.py installs the package",
    "install": "needs what packaging/build makes; e2e_packaging.py runs the static file",
    "podman": "needs what packaging/build makes; e2e_image.py runs the image",
    "tar": "needs what packaging/build makes; e2e_kubectl.py runs the plugin",
    "cmake": "the tool under test is built already; test_install runs the installation",
    "ninja": "the tool under test is built already",
}

# The process of README.md's reader: four of five keys are deleted. It is written to as soon as the
# page asks what grows.
SCENE = (
    "MALLOC_CONF=prof:true,prof_active:false,lg_prof_sample:16 redis-server --port 7379 --save '' "
    ">redis.log &",
    "until redis-cli -p 7379 ping >/dev/null 2>&1; do sleep 0.1; done",
    """redis-cli -p 7379 eval "for i = 1, 200000 do redis.call('set', 'key:' .. i,
        string.rep('x', 400)) end for i = 1, 200000 do
        if i % 5 > 0 then redis.call('del', 'key:' .. i) end end" 0""")
LOAD = "redis-benchmark -p 7379 -q -l -r 10000000 -d 200 -t set >load.log &"
GROWS = "jeattach leak"

# Functions of Debian's redis-server, and the system calls in which it may be: they depend on the
# release, and on the moment.
NAMES = ("_sdsnewlen createObject dictAddRaw epoll_wait lpInsert setKey dbAdd _dictExpand "
         "createStringObject processMultibulkBuffer main").split()

# Commands come NUL-terminated on file descriptor 3; each answer is the output, NUL, the exit code,
# NUL. The exit code of the last command is what the next one finds in $?.
SHELL = r"""
set -o pipefail
status=0
while IFS= read -r -d '' -u 3 command; do
    (exit "$status")
    eval "$command" 3<&- </dev/null
    status=$?
    printf '\0%d\0' "$status"
done
"""

# Switches the loopback interface on (netdevice(7)), then becomes the shell.
START = """
import fcntl, os, socket, struct, sys
SIOCSIFFLAGS, IFF_UP = 0x8914, 1
fcntl.ioctl(socket.socket(), SIOCSIFFLAGS, struct.pack("16sh22x", b"lo", IFF_UP))
os.execvp("bash", ["bash", "--noprofile", "--norc", "-c", sys.argv[1]])
"""
NAMESPACES = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "--net"]

Step = namedtuple("Step", "line command output")  # output: None where the page shows none


def text_of(page):
    return lib.read_text(os.path.join(lib.ROOT, page))


def blocks(text):
    """(number of the first line, language, lines) of each fenced block."""
    found, start = [], None
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("```"):
            continue
        if start is None:
            start, language = number, line[3:].strip()
        else:
            found.append((start + 1, language, text.splitlines()[start:number - 1]))
            start = None
    return found


def joined(first, lines):
    """(number, command): lines that end in a backslash belong together with the next."""
    number, command = first, ""
    for offset, line in enumerate(lines):
        command += line
        if command.endswith("\\"):
            command = command[:-1]
            continue
        if command.strip() and not command.startswith("#"):
            yield number, command
        number, command = first + offset + 1, ""


def transcript(first, lines):
    """The commands of a console block with the output below each of them."""
    found = []
    for offset, line in enumerate(lines):
        if line.startswith("$ "):
            found.append(Step(first + offset, line[2:], []))
        else:
            found[-1].output.append(line)
    return found


def steps(text):
    found = []
    for first, language, lines in blocks(text):
        if language == "sh":
            found += [Step(number, command, None) for number, command in joined(first, lines)]
        elif language == "console":
            found += transcript(first, lines)
    return found


# What may differ, and what it may be instead.
VARYING = [
    # A busy thread may be in the middle of a change each time that it is looked at.
    (r"threads:? +\d+ of \d+ [^\n]*", r"threads:? +(?:\d+ of \d+ |unknown for )[^\n]*"),
    (r"/srv/redis/", r"/\S+/"),
    (r"back in \w+", r"(?:back in [\w ]+|running again)"),
    (r"\s+", r"\s+"),
    (r"g[0-9a-f]{40}", r"g[0-9a-f]+"),
    (r"[-+]?\d[\d.]* (?:[KMGT]i)?B\b", r"[-+]?\d[\d.]* (?:[KMGT]i)?B"),
    (r"\d[\d.]* (?:ms|s|min)\b", r"\d[\d.]* (?:us|ms|s|min)"),
    (r"\d{8}T\d{6}Z", r"\d{8}T\d{6}Z"),
    (r"\d+ stacks?\b", r"\d+ stacks?"),
    (r"\d+ threads?\b", r"\d+ threads?"),
    (r"[-+]?\d+(?:\.\d+)*", r"[-+]?\d+(?:\.\d+)*"),
    (r"\b(?:%s)\b" % "|".join(NAMES), r"\S+"),
]
ANY_VARYING = re.compile("|".join("(%s)" % seen for seen, _ in VARYING))


def shape(line):
    """A regular expression for all lines of the same shape."""
    pattern, end = "", 0
    for match in ANY_VARYING.finditer(line):
        pattern += re.escape(line[end:match.start()])
        pattern += VARYING[match.lastindex - 1][1]
        end = match.end()
    return pattern + re.escape(line[end:])


def shape_of_all(lines):
    pattern = ""
    for line in lines:
        pattern += r"(?:.*\n)*?" if line.strip() == "..." else r"\s*" + shape(line.strip()) + r"\s+"
    return re.compile(pattern)


class Shell:
    """One bash for the commands of a page."""

    def __init__(self, directory, path):
        self.read_end, write_end = os.pipe()
        os.set_inheritable(self.read_end, True)
        self.commands = os.fdopen(write_end, "wb")
        env = lib.tool_environment({"PATH": path, "LC_ALL": "C"})
        self.process = subprocess.Popen(
            NAMESPACES + ["sh", "-c", 'exec 3<&%d; exec "$@"' % self.read_end, "sh",
                          sys.executable, "-c", START, SHELL],
            cwd=directory, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, pass_fds=[self.read_end])
        os.close(self.read_end)

    def run(self, command):
        """(exit code, output); no exit code if the shell itself has ended."""
        with contextlib.suppress(BrokenPipeError):
            self.commands.write(command.encode() + b"\0")
            self.commands.flush()
        answer = self._read_until(2)
        if answer.count(b"\0") < 2:
            return None, answer.decode(errors="replace")
        output, code = answer.split(b"\0")[:2]
        return int(code), output.decode(errors="replace")

    def _read_until(self, marks):
        answer, deadline = b"", time.monotonic() + COMMAND_TIMEOUT
        while answer.count(b"\0") < marks:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self.process.stdout], [], [], left)[0]:
                raise AssertionError("no answer in %d s: %r" % (COMMAND_TIMEOUT, answer))
            data = os.read(self.process.stdout.fileno(), 1 << 16)
            if not data:
                break
            answer += data
        return answer

    def stop(self):
        self.commands.close()
        lib.end_process(self.process)


class Pages(lib.TestCase):
    def shell(self, *programs):
        for program in ("unshare", "redis-server", "redis-benchmark", "pidof", *programs):
            if not shutil.which(program):
                self.skipTest("%s is not installed" % program)
        lib.require_root()
        tried = subprocess.run(NAMESPACES + ["true"], capture_output=True, text=True)
        if tried.returncode:
            self.skipTest("no new namespaces: %s" % tried.stderr.strip())
        programs = self.directory()
        os.symlink(lib.TOOL, os.path.join(programs, "jeattach"))
        shell = Shell(self.directory(), programs + ":" + os.environ["PATH"])
        self.addCleanup(shell.stop)
        return shell

    def check_output(self, where, step, output):
        if step.output is not None:
            expected = shape_of_all(step.output)
            self.assertTrue(expected.fullmatch(output),
                            "%s\n--- printed there\n%s\n--- the tool's answer\n%s" % (
                                where, "\n".join(step.output), output))

    def run_page(self, page):
        shell, ran = self.shell(*("gcore",) if page == GUIDE else ()), 0
        for command in SCENE if page == README else ():
            self.assertEqual(shell.run(command)[0], 0, command)
        todo = steps(text_of(page))
        for step, following in zip(todo, todo[1:] + [Step(0, "", None)]):
            where = "%s:%d: $ %s" % (page, step.line, step.command)
            if step.command.split()[0] in NOT_RUN:
                continue
            if page == README and step.command.startswith(GROWS):
                shell.run(LOAD)
            code, output = shell.run(step.command)
            if following.command != "echo $?":
                self.assertEqual(code, 0, "%s\n%s" % (where, output))
            self.check_output(where, step, output)
            ran += 1
        return ran

    def test_readme(self):
        self.assertGreater(self.run_page(README), 25)

    def test_guide(self):
        self.assertGreater(self.run_page(GUIDE), 25)

    def test_not_run(self):
        """Commands are left out for a reason, and no reason is left over."""
        words = [step.command.split()[0] for step in steps(text_of(README))]
        self.assertEqual(sorted(set(words) & set(NOT_RUN)), sorted(NOT_RUN))
        self.assertLess(sum(word in NOT_RUN for word in words), 10)

    def test_finds_faults(self):
        """A wrong exit code, other words and a missing line are seen."""
        same = shape_of_all(["in use: 50.56 MiB in 313808 objects", "...", "  end of it"])
        self.assertTrue(same.fullmatch("in use: 7 B in 1 objects\n1\n2\nend of it\n"))
        self.assertFalse(same.fullmatch("in use: 7 B in 1 objects\n1\n2\n"))
        self.assertFalse(same.fullmatch("used: 7 B in 1 objects\nend of it\n"))
        self.assertTrue(shape_of_all(["0.4 ms: 48 stacks, 1 thread;"]).fullmatch(
            "2 ms: 1 stack, 3 threads;\n"))
        self.assertFalse(shape_of_all(["48 stacks"]).fullmatch("48 threads\n"))
        shell = self.shell()
        self.assertEqual(shell.run("false")[0], 1)
        self.assertEqual(shell.run("echo $?"), (0, "1\n"))
        self.assertEqual(shell.run("a=$(echo 3); echo $a >&2"), (0, "3\n"))

    def test_size(self):
        self.assertLess(len(text_of(README).splitlines()), 165)

    def test_version(self):
        """The image that README runs has the version of the tool."""
        version = lib.run_tool("--version").text.split()[1]
        self.assertEqual(re.findall(r" jeattach:(\S+) ", text_of(README)), [version])

    def test_picture(self):
        """README's picture is a PNG, as wide as twice its column, and is loaded at once."""
        self.assertIn("](%s)" % PICTURE, text_of(README))
        with open(os.path.join(lib.ROOT, PICTURE), "rb") as file:
            data = file.read()
        self.assertEqual(data[:16], b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
        width, height = struct.unpack(">II", data[16:24])
        self.assertEqual(width, 2 * 880)
        self.assertTrue(width / 3 < height < width, height)
        self.assertLess(len(data), 150000)

    def test_install(self):
        """What an installation has: each page of docs is one of its files, or excluded by kind."""
        cmake = shutil.which("cmake")
        build = lib.TOOL and os.path.dirname(lib.TOOL)
        if not cmake or not os.path.exists(os.path.join(build, "cmake_install.cmake")):
            self.skipTest("no cmake, or no build directory around the tool")
        root = self.directory()
        made = subprocess.run([cmake, "--install", build, "--prefix", root],
                              capture_output=True, text=True)
        self.assertEqual(made.returncode, 0, made.stdout + made.stderr)
        found = {os.path.relpath(os.path.join(folder, name), root)
                 for folder, _, names in os.walk(root) for name in names}
        doc = "share/doc/jeattach"
        for page in [*PAGES, PICTURE]:
            self.assertIn(os.path.join(doc, page), found)
        for name in ("bin/jeattach", "share/man/man1/jeattach.1",
                     "share/bash-completion/completions/jeattach",
                     "share/zsh/site-functions/_jeattach"):
            self.assertIn(name, found)


class Demo(lib.TestCase):
    def test_demo(self):
        """./demo answers three questions, leaves a flame graph, and no process."""
        lib.require_root()
        done = subprocess.run([os.path.join(lib.ROOT, "demo")], capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        pid = re.search(r"(?m)^\$ jeattach (\d+)$", done.stdout)[1]
        for line in (r"redis-server\[%s\] .*" % pid, r"objects: \+.* in use \(exact\).*",
                     r".*─hsetCommand"):
            self.assertRegex(done.stdout, "(?m)^%s$" % line)
        graph = re.search(r"(?m)^# Next: open (\S+)", done.stdout)[1]
        self.assertIn("hsetCommand", lib.read_text(graph))
        self.assertFalse(os.path.exists("/proc/" + pid))


def anchors(text):
    """The names that GitHub and others give to the headings of a page."""
    plain = re.sub(r"(?ms)^```.*?^```$", "", text)
    found = set()
    for heading in re.findall(r"(?m)^#+ (.*)$", plain):
        words = re.sub(r"[^\w\- ]", "", heading.lower())
        found.add(words.strip().replace(" ", "-"))
    return found


class Links(lib.TestCase):
    def test_links(self):
        """Each link leads to a file of the tree, and to a heading in it."""
        for page in PAGES + ["bench/README.md"]:
            text = re.sub(r"(?ms)^```.*?^```$", "", text_of(page))
            for target in re.findall(r"\]\(([^)\s]+)\)", text):
                if "://" in target:
                    continue
                path, _, anchor = target.partition("#")
                other = os.path.normpath(os.path.join(os.path.dirname(page), path)) if path else page
                with self.subTest(page=page, target=target):
                    self.assertTrue(os.path.exists(os.path.join(lib.ROOT, other)))
                    if anchor:
                        self.assertIn(anchor, anchors(text_of(other)))

    def test_index(self):
        """docs/README.md names every page of docs."""
        index = text_of("docs/README.md")
        for page in PAGES[1:]:
            name = os.path.basename(page)
            if name != "README.md":
                self.assertIn("](%s)" % name, index)


if __name__ == "__main__":
    lib.main()
