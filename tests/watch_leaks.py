"""watch: processes that leak until the kernel ends them, each under a limit of its own."""

import lib
from watching import WatchTest


class Leaks(WatchTest):
    def test_eight(self):
        self.leak_all(8, (1.5, 3))


if __name__ == "__main__":
    lib.main()
