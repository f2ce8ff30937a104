"""As e2e_extents.py, for builds of jemalloc that Debian does not have."""

import e2e_counted
import e2e_extents
import e2e_live
import lib
import releases


class Built(e2e_extents.Extents):
    def check_built(self, version, *flags):
        process = self.kept(version, library=releases.built(version, *flags))
        self.assert_kept(process, self.sums(process))
        self.assert_well(process)

    def test_built_5_1_0(self):
        self.check_built("5.1.0")

    def test_built_debug(self):
        self.check_built("5.3.0", "--enable-debug")

    def test_built_with_other_classes(self):
        """Without statistics, with which it could be compared."""
        self.check_built(
            "5.3.0", "--disable-stats", "--disable-initial-exec-tls", "--with-lg-quantum=3"
        )


class LiveBuilt(e2e_live.Live):
    def test_live_5_1_0(self):
        """Its records have no births."""
        self.check_all("5.1.0", library=releases.built("5.1.0"))

    def test_live_debug(self):
        """The time of a record has a second word."""
        self.check_all("5.3.0", library=releases.built("5.3.0", "--enable-debug"))


class CountedBuilt(e2e_counted.Counted):
    def check_counted(self, version, *flags, steps=e2e_counted.STEPS):
        library = releases.built(version, *flags)
        for conf in (e2e_counted.PLAIN, e2e_counted.SAMPLED):
            self.do_all(self.allocator(version, conf=conf, words=("--threads", 3),
                                       library=library), steps)

    def test_counted_5_1_0(self):
        self.check_counted("5.1.0")

    def test_counted_debug(self):
        """It ends the process if an arena is destroyed that has slabs with free objects."""
        self.check_counted("5.3.0", "--enable-debug",
                           steps=[step for step in e2e_counted.STEPS if "arena 0" not in step])


if __name__ == "__main__":
    lib.main()
