"""report on a profile whose truth is known: nothing large hides, shares are of the whole."""

import json
import re

import lib
from e2e_report import Case

MAIN, BIG, OTHER = 0x100000, 0x200000, 0x300000
CHAIN, LARGE, SMALL, SMALL_COUNT, ELSE = 400000, 300000, 3000, 300, 100000
WHOLE = CHAIN + LARGE + SMALL * SMALL_COUNT + ELSE


def stack(counts, *calls):
    return "@ %s\n  t*: %s [0: 0]\n" % (" ".join("%#x" % (call + 1) for call in calls), counts)


def seeded(large=LARGE):
    """A deep chain, one large stack beside it, many small ones, and one of another file."""
    text = "heap_v2/1\n"
    text += stack("1: %d" % CHAIN, *(BIG + 16 * i for i in range(12)), MAIN + 16)
    text += stack("1: %d" % large, BIG + 0x9000, MAIN + 16)
    for i in range(SMALL_COUNT):
        text += stack("1: %d" % SMALL, BIG + 0x1000 + 16 * i, MAIN + 16)
    text += stack("1: %d" % ELSE, OTHER + 16)
    return text + (
        "\nMAPPED_LIBRARIES:\n100000-1fffff r-xp 0 08:02 1 /x/main\n"
        "200000-2fffff r-xp 0 08:02 2 /x/big\n300000-3fffff r-xp 0 08:02 3 /x/other\n"
    )


class Screens(Case):
    def heap(self, name="now.heap", **changes):
        path = self.directory() + "/" + name
        with open(path, "w", encoding="ascii") as out:
            out.write(seeded(**changes))
        return path

    def run_report(self, path, *words):
        result = lib.run_tool("report", path, "--unit", "B", *words, env={"LC_ALL": "C"})
        self.assertEqual(result.code, lib.OK, result.err)
        return result


class Hidden(Screens):
    def test_deep_chain_hides_no_branch(self):
        """Calls that only continue a line are none of the --rows."""
        text = self.run_report(self.heap(), "-f", "tree", "--rows", "4").text
        self.assertRegex(text, r"(?m)^ *%d +[\d.]+%% +1 .*big\+0x9000$" % LARGE)
        self.assertRegex(text, r"(?m)\| big\+0$")
        for rows in range(1, 8):
            text = self.run_report(self.heap(), "-f", "tree", "--rows", rows).text
            shown = re.findall(r"(?m)^ *(\d+) +[\d.]+% +\d+ [ |`-]*(\S+\+0x\w+)$", text)
            least = min(int(size) for size, _ in shown)
            folded = re.findall(r"(?m)^ *(\d+) .*?(\d+) (?:smaller|more) calls?(?:, .* (\d+))?", text)
            for size, count, most in folded:
                each = int(size) if count == "1" else int(most)
                self.assertLessEqual(each, least, text)

    def test_sums_say_how_large_their_parts_are(self):
        tree = self.run_report(self.heap(), "-f", "tree").text
        self.assertRegex(
            tree, r"(?m)^ *900000 +52\.9% +300 .*300 smaller calls, each at most 3000( B)?$"
        )
        table = self.run_report(self.heap()).text
        self.assertRegex(
            table, r"(?m)^and 312 more functions: 900000( B)? \(52\.9%\), each at most 3000( B)? \("
        )

    def test_no_rows_of_zero(self):
        """Callers that allocate nothing themselves are in the order by the whole."""
        heap = self.heap()
        self.assertNotRegex(self.run_report(heap).text, r"(?m)^ *0 ")
        self.assertRegex(self.run_report(heap, "--sort", "cum").text, r"(?m)^ *0 .*main")


class Filter(Screens):
    def test_shares_are_of_the_whole(self):
        path, share = self.heap(), 100 * LARGE / WHOLE
        for words in ((), ("-f", "tree")):
            text = self.run_report(path, "--focus", "0x9000", *words).text
            self.assertIn("filtered: %.1f%% of %d" % (share, WHOLE), text)
            self.assertIn("302 stacks left out; shares are of the whole\n", text)
            self.assertRegex(text, r"(?m)^ *%d +%.1f%% +1 " % (LARGE, share))
            self.assertNotIn("100.0", text)
        dot = self.run_report(path, "--focus", "0x9000", "-f", "dot").text
        self.assertIn("(%.2f%%)" % share, dot)
        found = json.loads(self.run_report(path, "--focus", "0x9000", "-f", "json").text)
        self.assertEqual((found["total"], found["whole"]), (LARGE, WHOLE))
        self.assertEqual((found["stacks"], found["stacks_filtered"]), (1, SMALL_COUNT + 2))
        page = self.run_report(path, "--focus", "0x9000", "-f", "flame").text
        self.assertTrue("filtered: %.1f%% of" % share in page)
        self.assertNotIn("filtered", self.run_report(path).text)

    def test_pattern_without_a_match(self):
        path = self.heap()
        for option, rest in (("focus", True), ("show", True), ("ignore", False), ("hide", False)):
            with self.subTest(option):
                result = self.run_report(path, "--" + option, "no\x1bsuch")
                said = "no call of any stack matches --%s 'no?such'" % option
                self.assertIn(said + (": nothing is left to show\n" if rest else "\n"), result.err)
                self.assertEqual("sampled: 0" in result.text, rest, result.text)
                if rest:
                    self.assertIn("filtered: 0.0% of", result.text)
                else:
                    self.assertNotIn("filtered", result.text)
        self.assertNotIn("matches", self.run_report(path, "--focus", "/x/big").err)
        # A pattern that only an ignored stack matches does match.
        both = self.run_report(path, "--focus", "0x9000", "--ignore", "big")
        self.assertNotIn("matches", both.err)


class Growth(Screens):
    def test_nothing_is_no_growth(self):
        """A caller whose own memory is the same has no +0 B."""
        before, now = self.heap("before.heap"), self.heap(large=LARGE + 5000)
        for words in ((), ("-f", "tree"), ("--rows", "0"), ("-f", "tree", "--rows", "0")):
            text = self.run_report(now, "--base", before, *words).text
            self.assertIn("+5000", text)
            self.assertNotRegex(text, r"(?<![\w.+-])\+?0 B|\+0\b(?!x)", text)
        same = self.run_report(before, "--base", before).text
        self.assertIn("no growth", same)
        self.assertNotIn("+0", same)


if __name__ == "__main__":
    lib.main()
