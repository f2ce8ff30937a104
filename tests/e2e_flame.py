"""The flame graph in a browser: it draws, zooms, searches, and runs no code but its own."""

import os

import browser
import e2e_report
import lib


class Flame(e2e_report.Case):
    def open(self, path):
        if not browser.PROGRAM:
            raise lib.unittest.SkipTest("no Chromium is installed (package chromium)")
        page = browser.Browser()
        self.addCleanup(page.close)
        page.open(path)
        return page

    def find(self, page, name):
        return page.evaluate("window.flame.find('%s')" % name)

    def text(self, page, identity):
        return page.evaluate("document.getElementById('%s').textContent" % identity)

    def test_zoom_and_search(self):
        page = self.open(self.dump(self.sites(), "x.html"))
        whole, large = self.find(page, "all"), self.find(page, "keep_large")
        self.assertGreater(whole["width"], 1000)
        self.assertLess(large["width"], whole["width"])
        page.mouse("mouseMoved", large["x"] + 5, large["y"] + 5)
        self.assertIn("640 KiB", self.text(page, "tip"))
        page.click(large["x"] + 5, large["y"] + 5)
        self.assertEqual(self.find(page, "keep_large")["width"], whole["width"])
        self.assertIsNone(self.find(page, "keep_small"))
        self.assertIn("keep_large: 640 KiB", self.text(page, "status"))
        page.evaluate("document.getElementById('reset').click()")
        self.assertEqual(self.find(page, "keep_large"), large)
        page.evaluate(
            "(s => { s.value = 'keep_(small|deep)'; s.dispatchEvent(new Event('input')) })"
            "(document.getElementById('search'))"
        )
        self.assertIn("82.5 KiB", self.text(page, "found"))
        self.assertEqual(page.errors, [])

    def test_growth(self):
        base, process = self.dump(self.sites()), self.sites()
        self.grow(process)
        path = self.dump(process)
        self.report(path, "--base", base, "-o", path + ".html")
        page = self.open(path + ".html")
        small = self.find(page, "keep_small")
        page.mouse("mouseMoved", small["x"] + 5, small["y"] + 5)
        self.assertIn("growth +62.5 KiB", self.text(page, "tip"))
        self.assertEqual(page.errors, [])

    def test_hostile_names(self):
        """The target chooses the file names in MAPPED_LIBRARIES."""
        path = os.path.join(self.directory(), "<img src=x onerror=document.title='owned'>.heap")
        with open(path, "w") as out:
            out.write("heap_v2/1\n@ 0x1001\n  t*: 1: 8 [0: 0]\n\nMAPPED_LIBRARIES:\n")
            out.write("1000-2000 r-xp 00000000 08:02 1 /x/</script><script>document.title='owned'")
            out.write("</script><img src=x onerror=document.title='owned'>\n")
        page_path = os.path.join(self.directory(), "x.html")
        self.report(path, "-o", page_path)
        page = self.open(page_path)
        self.assertIn("onerror", page.evaluate("document.title"))
        self.assertNotEqual(page.evaluate("document.title"), "owned")
        self.assertEqual(page.evaluate("document.images.length"), 0)
        self.assertEqual(page.evaluate("document.scripts.length"), 2)
        self.assertEqual(page.evaluate("window.flame.nodes"), 2)


if __name__ == "__main__":
    lib.main()
