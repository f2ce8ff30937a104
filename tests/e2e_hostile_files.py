"""Heap files that somebody else wrote: what they name, and how large a view they make."""

import gzip
import json
import os
import re
import signal
import subprocess

import hostile
import lib
from hostile import run_bounded

HEAD = "heap_v2/1024\n  t*: 3: 3072 [0: 0]\n  t0: 3: 3072 [0: 0]%s\n"
# One of each range of the characters without a glyph.
UNSEEN = ("\u00ad\u034f\u061c\u115f\u1160\u17b4\u180e\u200b\u200f\u2028\u202e\u2060\u2066\u206f"
          "\u3164\ufe0f\ufeff\uffa0\ufff9\ufffb\U0001d173\U000e0001\U000e007f")
FORMATS = ("text", "tree", "folded", "flame", "dot", "pprof")


class Files(hostile.TestCase):
    def heap(self, text, name="x.heap"):
        path = self.path(name)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
        return path

    def deep(self, stacks):
        """Stacks of 65,536 frames each, which differ in the outermost one."""
        inner = b" 0x1 0x2" * 32767 + b" 0x1"
        with open(self.path("deep.heap"), "wb") as file:
            file.write(b"heap_v2/1024\n  t*: %d: %d [0: 0]\n" % (stacks, 1000 * stacks))
            for i in range(stacks):
                file.write(b"@%b 0x%x\n  t*: 1: 1000 [0: 0]\n" % (inner, 16 + i))
            file.write(b"\nMAPPED_LIBRARIES:\n")
        return file.name

    def report(self, path, *words, code=lib.OK):
        result = self.assert_bounded(run_bounded("report", path, *words), 500 << 20)
        self.assertEqual(result.code, code, result)
        return result

    def test_invisible_names(self):
        """Two names that look the same are the same: characters without a glyph are shown."""
        text = HEAD % (" thread" + UNSEEN + "t")
        text += "@ 0x10100 0x10200\n  t*: 3: 3072 [0: 0]\n  t0: 3: 3072 [0: 0]\n\n"
        text += "MAPPED_LIBRARIES:\n00010000-00020000 r-xp 00000000 08:01 1 /nosuch/lib"
        path = self.heap(text + UNSEEN + "z.so\n")
        shown = {"lib" + "?" * len(UNSEEN) + "z.so", "thread" + "?" * len(UNSEEN) + "t"}
        for form in FORMATS:
            with self.subTest(form=form):
                out = self.path("out." + form)
                result = self.report(path, "--by-thread", "-f", form, "-o", out)
                with open(out, "rb") as file:
                    data = file.read()
                data = gzip.decompress(data) if form == "pprof" else data
                if form == "dot":
                    data = data.replace(b"\\n", b"")
                seen = data.decode(errors="replace") + result.err
                for code in UNSEEN:
                    self.assertNotIn(code, seen)
                    if form == "flame":  # the page shows what an escape means
                        self.assertNotIn("\\u%04x" % ord(code), seen)
                for name in shown:
                    self.assertIn(name, seen)
        result = self.report(path, "--by-thread", "--json")
        self.assertTrue(result.text.isascii())
        self.assertIn("lib" + UNSEEN + "z.so", json.loads(result.text)["functions"][0]["function"])

    def test_many_frames(self):
        """A view of as many frames as a file may have takes less than 500 MB; one of more is
        refused."""
        path = self.deep(500)
        for form in ("flame", "tree", "folded", "text"):
            with self.subTest(form=form):
                self.report(path, "-f", form, "--rows", "0", "-o", "/dev/null")
        path = self.deep(520)
        result = self.report(path, "-f", "flame", code=lib.OUTPUT_FAILED)
        self.assertIn("it is larger than the limit of 33554432 frames", result.err)

    def test_not_files_of_text(self):
        """What is no text, or no profile, is not read to its end."""
        begun, sparse = self.heap(HEAD % "" + "@ 0x1\n  t*: 3: 3072 [0: 0]\n"), self.path("sparse")
        for path in begun, sparse:
            with open(path, "ab") as file:
                file.truncate(7 << 30)
        result = self.report(begun)
        self.assertIn("1 stack", result.text)
        self.assertIn("the profile is truncated", result.err)
        for path in sparse, "/dev/zero", "/dev/urandom", self.path(""):
            self.report(path, code=lib.USAGE)
        with open(self.path("words"), "wb") as file:
            for _ in range(600):
                file.write(b"word\n" * (1 << 18))
        self.report(file.name, code=lib.USAGE)

    def test_pipe_without_writer(self):
        """One Ctrl-C ends the wait for it, as an interruption."""
        os.mkfifo(self.path("pipe"))
        tool = self.process([lib.TOOL, "report", self.path("pipe")], stderr=subprocess.PIPE,
                            env=lib.tool_environment())

        def waits():
            """It handles the signal, and is in openat."""
            handled = re.search(r"SigCgt:\s+(\w+)", lib.read_text("/proc/%d/status" % tool.pid))[1]
            return (int(handled, 16) >> signal.SIGINT - 1 & 1 and
                    lib.read_text("/proc/%d/syscall" % tool.pid).startswith("257 "))

        self.assertTrue(lib.wait_until(waits))
        tool.send_signal(signal.SIGINT)
        self.assertEqual(tool.wait(), lib.INTERRUPTED, tool.stderr.read())


if __name__ == "__main__":
    lib.main()
