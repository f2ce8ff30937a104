"""As e2e_reading.py, for builds of jemalloc that Debian does not have. 4.x and 5.0 can be had from none
of the usual registries."""

import e2e_reading
import lib
import releases


class Built(e2e_reading.Quiet):
    """They have symbols; Debian's do not."""

    def check_built(self, version, confs, *flags):
        self.check(version, confs, releases.built(version, *flags))

    def test_built_5_1_0(self):
        self.check_built("5.1.0", e2e_reading.OLD_CONFS)

    def test_built_5_2_1(self):
        self.check_built("5.2.1", e2e_reading.OLD_CONFS)

    def test_built_5_3_0(self):
        self.check_built("5.3.0", e2e_reading.NEW_CONFS)

    def test_built_debug(self):
        self.check_built("5.3.0", e2e_reading.NEW_CONFS, "--enable-debug")

    def test_built_without_statistics(self):
        flags = ("--disable-stats", "--disable-initial-exec-tls", "--with-lg-quantum=3")
        self.check_built("5.3.0", e2e_reading.NEW_CONFS, *flags)


if __name__ == "__main__":
    lib.main()
