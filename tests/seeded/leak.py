"""A Python program whose extension leaks (records.c). It works until its stdin ends."""

import select
import sys

import records


def import_feed(number):
    words = ["%d:%d" % (number, i) for i in range(300)]
    records.parse(",".join(words).ljust(4095))


def main():
    print("ready", flush=True)
    number = 0
    while not select.select([sys.stdin], [], [], 0.001)[0]:
        for _ in range(4):
            import_feed(number)
            number += 1


if __name__ == "__main__":
    main()
