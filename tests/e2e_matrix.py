"""Tests of the kill matrix itself: it notices a stand-in for the tool that does harm."""

import os
import shutil
import unittest
from unittest import mock

import kill_matrix
import lib

VANDAL = os.path.join(lib.ROOT, "tests", "victims", "vandal.py")


class Matrix(lib.TestCase):
    def series_with(self, harm, mode="spin"):
        with mock.patch.multiple(lib, TOOL=VANDAL, TRACED_TOOL=VANDAL), \
                mock.patch.dict(os.environ, VANDAL=harm):
            victim = self.victim(mode, ms=25)
            sink = os.path.join(self.directory(), "sink")
            return kill_matrix.Series("on", victim, sink).run()

    def assert_found(self, series, words):
        self.assertTrue(any(words in fault for fault in series.faults), series.faults)

    def require_gdb(self):
        if not shutil.which("gdb"):
            raise unittest.SkipTest("gdb is not installed")

    def test_text(self):
        series = self.series_with("text")
        self.assertEqual(series.text_changed, 1)
        self.assert_found(series, "text mappings changed")

    def test_stopped(self):
        series = self.series_with("stop")
        self.assertEqual(series.hangs, 1)
        self.assert_found(series, "hangs")

    def test_death(self):
        series = self.series_with("kill")
        self.assertEqual(series.deaths, 1)
        self.assert_found(series, "died")

    def test_mappings(self):
        self.require_gdb()
        series = self.series_with("map")
        self.assertGreater(len(series.lefts), kill_matrix.MAPPINGS_LEFT_ALLOWED)
        self.assert_found(series, "mappings: new")

    def test_descriptors(self):
        self.require_gdb()
        self.assert_found(self.series_with("fd"), "descriptors")

    def test_eintr(self):
        """gdb's attach alone interrupts epoll_wait."""
        self.require_gdb()
        self.assert_found(self.series_with("fd", "epoll_wait"), "EINTR")


if __name__ == "__main__":
    lib.main()
