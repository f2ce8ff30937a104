"""watch: a hundred processes that leak until the kernel ends them, each under a limit."""

import lib
from watching import WatchTest


class Leaks(WatchTest):
    def test_hundred(self):
        self.leak_all(100, (0.3, 1))


if __name__ == "__main__":
    lib.main()
