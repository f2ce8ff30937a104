"""The same as e2e_opaque with a jemalloc that is built for it: with musl."""

import lib
import opaque


class Built(opaque.TestCase):
    def test_musl_static(self):
        self.check(opaque.musl_static())


if __name__ == "__main__":
    lib.main()
