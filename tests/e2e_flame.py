"""The flame graph: its data, and in a browser what it shows, its keys, and its links."""

import json
import os
import re

import browser
import e2e_report
import lib

SOURCE = os.path.join(lib.ROOT, "tests", "victims", "sites.c")
HOSTILE = "</script><script>document.title='owned'</script><img src=x onerror=document.title='owned'>"


def source_line(text):
    with open(SOURCE, encoding="utf-8") as source:
        return next(number for number, line in enumerate(source, 1) if text in line)


def flame_data(page):
    return json.loads(page.split('id="data">')[1].split("</script>")[0])


def flame_boxes(data, tree, deepest=40):
    """Returns the boxes of a tree: {path: (now, joined, file, line, module)}."""
    numbers, open_boxes, found, depth = iter(data[tree]), [], {}, -1
    for up in numbers:
        depth += 1 - up
        call, missing = next(numbers) // 2, next(numbers)
        now = (open_boxes[depth - 1][1] if depth else 0) - missing
        if data["compares"]:
            next(numbers), next(numbers)
        joined = 0 if call else next(numbers)
        name, _, file, line, module, _ = data["calls"][6 * call : 6 * call + 6]
        del open_boxes[depth:]
        open_boxes.append((data["texts"][name] or "(joined)", now))
        if depth <= deepest:
            path = ";".join(name for name, _ in open_boxes[1:])
            found[path] = (now, joined, data["texts"][file], line, data["texts"][module])
    return found


class Case(e2e_report.Case):
    def forge(self, stacks, maps="", name="x.heap", period="1"):
        """Writes a profile of (address, bytes) with every allocation sampled."""
        path = os.path.join(self.directory(), name)
        with open(path, "w", encoding="utf-8") as out:
            out.write("heap_v2/%s\n" % period)
            for address, size in stacks:
                out.write("@ %#x\n  t*: 1: %d [0: 0]\n" % (address, size))
            out.write("\nMAPPED_LIBRARIES:\n" + maps)
        return path

    def hostile(self):
        """The target chooses the file names in MAPPED_LIBRARIES; a user the name of the profile."""
        name = "<img src=x onerror=document.title='owned'>.heap"
        path = self.forge(
            [(0x1001, 8)], "1000-2000 r-xp 00000000 08:02 1 /x/%s\n" % HOSTILE, name
        )
        page = os.path.join(self.directory(), "x.html")
        self.report(path, "-o", page)
        return page


class Data(Case):
    """What needs no browser."""

    def page(self, *words):
        return self.report(self.dump(self.sites()), "-f", "flame", *words)

    def test_both_trees(self):
        data = flame_data(self.page())
        callees, callers = (flame_boxes(data, tree) for tree in ("callees", "callers"))
        self.assertEqual(callees[""][0], callers[""][0])
        for name, (_, size) in e2e_report.KNOWN.items():
            of_callees = [box for path, box in callees.items() if path.split(";")[-1] == name]
            of_callers = [box for path, box in callers.items() if path.split(";")[0] == name]
            if name != "make":
                self.assertEqual(max(box[0] for box in of_callees), size, name)
                self.assertEqual(callers["make;" + name][0], size)
            else:
                self.assertEqual(max(box[0] for box in of_callers), size)

    def test_sum(self):
        """What samples stand for is not called memory in use."""
        for period, kind in (("1", "in use"), ("524288", "(samples)")):
            path = self.forge([(0x1001, 2000)], period=period)
            sums = [
                flame_data(self.report(path, "-f", "flame", *words))["sum"]
                for words in ((), ("--value", "inuse_objects"), ("--base", path))
            ]
            self.assertRegex(sums[0], r"^[\d.]+ [KM]iB %s$" % re.escape(kind))
            self.assertRegex(sums[1], r"^\d+ objects %s$" % re.escape(kind))
            self.assertRegex(sums[2], "^growth 0 B %s, .* before, .* now$" % re.escape(kind))

    def test_places(self):
        """File and line of the call, and the module: for the tooltip."""
        boxes = flame_boxes(flame_data(self.page()), "callers")
        for name, text in (("keep_large", "make(65536);"), ("keep_in_thread", "make(4096);")):
            _, _, file, line, module = boxes["make;" + name]
            self.assertEqual(file.split("/")[-3:], SOURCE.split("/")[-3:])
            self.assertEqual(line, source_line(text), name)
            self.assertEqual(os.path.realpath(module), os.path.realpath(e2e_report.SITES))

    def test_size_is_limited(self):
        """Deep stacks without anything in common: the largest ones stay, the others are joined."""
        path = os.path.join(self.directory(), "x.heap")
        with open(path, "w", encoding="utf-8") as out:
            out.write("heap_v2/1\n")
            for i in range(2000):
                calls = " ".join("%#x" % (0x100000 + 4096 * i + 16 * j) for j in range(120))
                out.write("@ %s\n  t*: 1: %d [0: 0]\n" % (calls, 1000 + i))
            out.write("\nMAPPED_LIBRARIES:\n1000-80000000 r-xp 00000000 08:02 1 /x/app\n")
        text = self.report(path, "-f", "flame")
        self.assertLess(len(text), 2 << 20)
        boxes = flame_boxes(flame_data(text), "callees")
        total = sum(1000 + i for i in range(2000))
        self.assertEqual(boxes[""][0], total)
        shown = [box for path, box in boxes.items() if path and ";" not in path]
        joined = [box for box in shown if box[1]]
        self.assertEqual(sum(box[0] for box in shown), total)
        self.assertEqual(len(shown) - 1 + joined[0][1], 2000)
        self.assertGreater(len(shown), 50)
        self.assertGreater(min(box[0] for box in shown), 2000)

    def test_one_chain(self):
        """A chain that is too long for the page: all its calls hold the same."""
        path = self.forge([(1, 1)])
        with open(path, "w", encoding="utf-8") as out:
            calls = " ".join("%#x" % (0x100000 + 16 * j) for j in range(60000))
            out.write("heap_v2/1\n@ %s\n  t*: 1: 8000 [0: 0]\n\nMAPPED_LIBRARIES:\n" % calls)
        boxes = flame_boxes(flame_data(self.report(path, "-f", "flame")), "callees")
        self.assertEqual([box[:2] for box in boxes.values()], [(8000, 0), (8000, 1)])

    def test_hostile_names_are_text(self):
        with open(self.hostile(), encoding="utf-8") as page:
            text = page.read()
        self.assertEqual(len(re.findall("<script", text)), 2)
        self.assertNotIn("<img", text)
        self.assertIn(HOSTILE[9:17], json.dumps(flame_data(text)))

    def test_one_file(self):
        """No reference to anything outside, and a policy that would forbid it."""
        text = self.page()
        self.assertIn("default-src 'none'", text)
        self.assertIsNone(re.search(r"https?:|\b(src|href)=|\burl\(|\bimport\b|fetch\(", text))


class Page(Case):
    @classmethod
    def setUpClass(cls):
        if not browser.PROGRAM:
            raise lib.unittest.SkipTest("no Chromium is installed (package chromium)")
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    def open(self, path, fragment=""):
        page = self.browser
        page.open(path, fragment)
        page.size(1200, 700)
        page.media()
        return page

    def sites_page(self):
        return self.open(self.dump(self.sites(), "x.html"))

    def growth_page(self):
        base, process = self.dump(self.sites()), self.sites()
        self.grow(process)
        path = self.dump(process)
        self.report(path, "--base", base, "-o", path + ".html")
        return self.open(path + ".html")

    def find(self, page, name):
        return page.evaluate("window.flame.find('%s')" % name)

    def text(self, page, identity):
        return page.evaluate("document.getElementById('%s').textContent" % identity)

    def state(self, page, key):
        return page.evaluate("window.flame.state().%s" % key)

    def click(self, page, name):
        at = self.find(page, name)
        page.click(at["x"] + 5, at["y"] + 5)

    def hover(self, page, name):
        at = self.find(page, name)
        page.mouse("mouseMoved", at["x"] + 5, at["y"] + 5)
        return self.text(page, "tip")

    def search(self, page, text):
        page.evaluate(
            "(s => { s.value = %s; s.dispatchEvent(new Event('input')) })"
            "(document.getElementById('search'))" % json.dumps(text)
        )

    def wait(self, page, script, expected):
        lib.wait_until(lambda: page.evaluate(script) == expected)
        self.assertEqual(page.evaluate(script), expected)

    def test_zoom_and_search(self):
        page = self.sites_page()
        whole, large = self.find(page, "all"), self.find(page, "keep_large")
        self.assertGreater(whole["width"], 1000)
        self.assertLess(large["width"], whole["width"])
        self.assertIn("640 KiB", self.hover(page, "keep_large"))
        self.click(page, "keep_large")
        self.assertEqual(self.find(page, "keep_large")["width"], whole["width"])
        self.assertIsNone(self.find(page, "keep_small"))
        self.assertEqual(self.text(page, "name"), "keep_large:")
        self.assertIn("640 KiB", self.text(page, "details"))
        page.evaluate("document.getElementById('whole').click()")
        self.assertEqual(self.find(page, "keep_large"), large)
        self.search(page, "keep_(small|deep)")
        self.assertIn("82.5 KiB", self.text(page, "found"))
        self.assertNotEqual(
            page.evaluate("window.flame.color('keep_small')"),
            page.evaluate("window.flame.color('keep_large')"),
        )
        self.search(page, "keep_(")
        self.assertEqual(self.text(page, "found"), "not a regular expression")
        self.assertEqual(page.errors, [])

    def test_tooltip_says_where(self):
        page = self.sites_page()
        tip = self.hover(page, "keep_large")
        self.assertIn("sites.c:%d\n" % source_line("make(65536);"), tip)
        self.assertIn(os.path.basename(lib.VICTIMS) + "/sites", tip)
        self.assertNotIn("other places", tip)
        self.assertIn("and other places", self.hover(page, "main"))
        self.hover(page, "keep_large")
        for part in ("sites.c:%d" % source_line("make(65536);"), "/sites"):
            self.assertIn(part, self.text(page, "details"))

    def test_growth(self):
        page = self.growth_page()
        self.assertIn("growth +62.5 KiB", self.text(page, "title"))
        # The widths are those of the growth: all of it is of one function.
        self.assertEqual(self.state(page, "side"), "growth")
        self.assertIsNone(self.find(page, "keep_large"))
        self.assertEqual(self.find(page, "keep_small")["width"], self.find(page, "all")["width"])
        page.key("w")
        self.assertEqual(self.state(page, "side"), "now")
        wide = self.find(page, "keep_small")["width"]
        self.assertIn("growth +62.5 KiB", self.hover(page, "keep_small"))
        self.assertIn("growth 0 B", self.hover(page, "keep_large"))
        legend = self.text(page, "legend")
        for word in ("grown", "shrunk", "within the sampling error", "100 %"):
            self.assertIn(word, legend)
        self.assertRegex(page.evaluate("window.flame.color('keep_small')"), r"hsl\(4 ")
        self.assertEqual(page.evaluate("window.flame.color('keep_large')"), "#c4c4c4")
        page.key("w")
        self.assertEqual(self.state(page, "side"), "base")
        self.assertLess(self.find(page, "keep_small")["width"], wide)
        self.assertEqual(page.errors, [])

    def test_growth_within_the_error(self):
        """Two recordings of one program, sampled: what differs is the sampling."""
        paths = []
        for objects in (300, 310):
            path = os.path.join(self.directory(), "x.heap")
            with open(path, "w", encoding="utf-8") as out:
                out.write("heap_v2/524288\n@ 0x1001\n  t*: %d: %d [0: 0]\n" % (objects, objects << 9))
                out.write("\nMAPPED_LIBRARIES:\n1000-2000 r-xp 00000000 08:02 1 /x/app\n")
            paths.append(path)
        out = os.path.join(self.directory(), "x.html")
        self.report(paths[1], "--base", paths[0], "-o", out)
        page = self.open(out)
        self.assertIn("within the sampling error", self.hover(page, "app+0"))
        self.assertEqual(page.evaluate("window.flame.color('app+0')"), "#c4c4c4")

    def test_bottom_up(self):
        page = self.sites_page()
        from_root = self.find(page, "make")
        page.key("b")
        self.assertEqual(self.state(page, "view"), "callers")
        make, large = self.find(page, "make"), self.find(page, "keep_large")
        self.assertGreater(make["width"], from_root["width"])
        self.assertEqual(make["y"] + make["height"], large["y"])
        self.assertEqual(
            page.evaluate("document.getElementById('view').getAttribute('aria-pressed')"), "true"
        )
        page.evaluate("document.getElementById('view').click()")
        self.assertEqual(self.find(page, "make"), from_root)
        self.assertEqual(page.errors, [])

    def test_link_restores_the_view(self):
        path = self.dump(self.sites(), "x.html")
        page = self.open(path)
        page.key("b")
        self.click(page, "keep_large")
        self.search(page, "keep_.*e$|a b&c=d#")
        state, shown = page.evaluate("JSON.stringify(window.flame.state())"), self.text(page, "found")
        link = page.evaluate("location.hash")
        page = self.open(path, link)
        self.assertEqual(page.evaluate("JSON.stringify(window.flame.state())"), state)
        self.assertEqual(self.state(page, "zoomed"), "keep_large")
        self.assertEqual(page.evaluate("search.value"), "keep_.*e$|a b&c=d#")
        self.assertEqual(self.text(page, "found"), shown)

    def test_link_of_another_profile(self):
        page = self.open(self.dump(self.sites(), "x.html"), "#view=callers&zoom=zzzzzz")
        self.assertEqual(self.state(page, "zoomed"), "all")
        self.assertEqual(self.state(page, "view"), "callers")
        self.assertIn("not in this profile", self.text(page, "found"))

    def test_inverted(self):
        page = self.open(self.dump(self.sites(), "x.html", "--invert"))
        self.assertEqual(self.state(page, "view"), "callers")

    def test_back_and_forward(self):
        page = self.sites_page()
        zoomed = "window.flame.state().zoomed"
        self.click(page, "main")
        self.click(page, "keep_large")
        page.evaluate("history.back()")
        self.wait(page, zoomed, "main")
        page.evaluate("history.back()")
        self.wait(page, zoomed, "all")
        page.evaluate("history.forward()")
        self.wait(page, zoomed, "main")
        self.click(page, "keep_large")
        page.key("Escape")
        self.assertEqual(self.state(page, "zoomed"), "main")
        page.key("Escape")
        self.assertEqual(self.state(page, "zoomed"), "all")

    def test_keys(self):
        page = self.sites_page()
        page.key("ArrowDown")
        self.assertEqual(self.state(page, "cursor"), "all")
        page.key("ArrowDown")
        first = self.state(page, "cursor")
        page.key("ArrowRight")
        second = self.state(page, "cursor")
        self.assertNotEqual(first, second)
        page.key("ArrowLeft")
        self.assertEqual(self.state(page, "cursor"), first)
        page.key("Enter")
        self.assertEqual(self.state(page, "zoomed"), first)
        self.assertEqual(self.find(page, first)["width"], self.find(page, "all")["width"])
        page.key("ArrowUp")
        self.assertEqual(self.state(page, "cursor"), "all")
        page.key("Escape")
        self.assertEqual(self.state(page, "zoomed"), "all")
        page.key("/")
        self.assertEqual(page.evaluate("document.activeElement.id"), "search")
        for letter in "keep_b?":
            page.key(letter)
        self.assertEqual(page.evaluate("search.value"), "keep_b?")
        self.assertEqual(self.state(page, "view"), "callees")
        page.key("Enter")
        self.assertEqual(page.evaluate("document.activeElement.id"), "graph")
        self.assertEqual(self.state(page, "cursor"), "keep_large")
        page.key("n")
        self.assertEqual(self.state(page, "cursor"), "keep_small")
        page.key("N")
        self.assertEqual(self.state(page, "cursor"), "keep_large")
        page.key("?")
        self.assertTrue(page.evaluate("document.getElementById('keys').open"))
        page.key("Escape")
        self.assertFalse(page.evaluate("document.getElementById('keys').open"))
        self.assertEqual(page.evaluate("search.value"), "keep_b?")
        self.assertEqual(page.errors, [])

    def test_accessible_names(self):
        page = self.sites_page()
        page.key("ArrowDown")
        page.key("ArrowDown")
        nodes = page.accessible()
        for role, words in (
            ("searchbox", "search function names"),
            ("button", "Bottom-up"),
            ("button", "Reset zoom"),
            ("button", "Keys"),
            ("tree", "flame graph, from the root to the functions that allocate"),
            ("treeitem", self.state(page, "cursor") + ": "),
        ):
            self.assertTrue(
                any(node[0] == role and node[1].startswith(words) for node in nodes), (role, nodes)
            )

    def test_smaller_calls_are_counted(self):
        stacks = [(0x1001, 100 << 20)] + [(0x1100 + 16 * i, 1000) for i in range(30)]
        path = self.forge(stacks, "1000-2000 r-xp 00000000 08:02 1 /x/app\n")
        page = self.open(self.report_to(path))
        self.assertIn("30 smaller calls", self.text(page, "legend"))
        self.assertIn("0.03 % of all", self.text(page, "legend"))

    def report_to(self, path):
        out = os.path.join(self.directory(), "x.html")
        self.report(path, "-o", out)
        return out

    def test_narrow_and_print(self):
        page = self.growth_page()
        page.size(360, 640)
        self.wait(page, "document.documentElement.scrollWidth", 360)
        self.assertEqual(self.find(page, "all")["width"], 360)
        page.media("print")
        self.assertEqual(
            page.evaluate("getComputedStyle(document.querySelector('form')).display"), "none"
        )
        self.wait(page, "document.documentElement.scrollWidth", 360)

    def test_contrast(self):
        """The text on each color that a box can have: at least 4.5, WCAG 2.1 AA."""
        page = self.growth_page()
        contrast = """(([color, alpha, text]) => {
            const c = document.createElement('canvas').getContext('2d');
            const paint = (style, opacity) => {
              c.globalAlpha = opacity;
              c.fillStyle = style;
              c.fillRect(0, 0, 1, 1);
              const [r, g, b] = [...c.getImageData(0, 0, 1, 1).data].map(v =>
                v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
              return 0.2126 * r + 0.7152 * g + 0.0722 * b + 0.05;
            };
            paint(getComputedStyle(document.body).backgroundColor, 1);
            const [x, y] = [paint(color, alpha), paint(text, 1)];
            return Math.max(x / y, y / x);
        })"""
        for scheme in ("light", "dark"):
            page.media(prefers_color_scheme=scheme)
            colors = page.evaluate("window.flame.palette()")
            worst = page.evaluate("Math.min(...window.flame.palette().map(%s))" % contrast)
            self.assertGreater(len(colors), 40)
            self.assertGreater(worst, 4.5, scheme)

    def test_hostile_names(self):
        page = self.open(self.hostile(), "#search=%3Cimg src=x onerror=1%3E&zoom=%3Cb%3E&view=%3Cb%3E")
        self.assertIn("onerror", page.evaluate("document.title"))
        self.assertNotEqual(page.evaluate("document.title"), "owned")
        self.assertEqual(page.evaluate("document.images.length"), 0)
        self.assertEqual(page.evaluate("document.scripts.length"), 2)
        self.assertEqual(page.evaluate("window.flame.nodes()"), 2)
        page.mouse("mouseMoved", 300, self.find(page, "all")["y"] + 25)
        self.assertIn("<img src=x onerror", self.text(page, "tip"))
        self.assertIn(HOSTILE, self.text(page, "details"))
        self.assertEqual(page.evaluate("document.images.length"), 0)
        self.assertEqual(page.errors, [])


if __name__ == "__main__":
    lib.main()
