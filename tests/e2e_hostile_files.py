"""Heap files that somebody else wrote: what they name, and how large a view they make."""

import gzip
import json
import os
import re

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

    def report(self, path, *words, code=lib.OK):
        result = self.assert_bounded(run_bounded("report", path, *words))
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


if __name__ == "__main__":
    lib.main()
