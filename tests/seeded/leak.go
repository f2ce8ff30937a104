// A Go program with cgo that leaks: tile_decode, a function in C, allocates 4 KiB for each tile,
// and renderTile in Go never frees it. It prints "ready", and works until its stdin ends.
package main

/*
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static void *tile_decode(int number)
{
    void *tile = malloc(4096);

    return tile ? memset(tile, number, 4096) : NULL;
}

__attribute__((noinline)) static void tile_fetch(int number)
{
    char *bytes = malloc(16384);

    if (bytes)
        memset(bytes, number, 16384);
    free(bytes);
}
*/
import "C"

import (
	"fmt"
	"os"
	"time"
	"unsafe"
)

var tiles []unsafe.Pointer

func renderTile(number int) {
	C.tile_fetch(C.int(number))
	tiles = append(tiles, C.tile_decode(C.int(number)))
}

func main() {
	go func() {
		var one [1]byte
		os.Stdin.Read(one[:])
		os.Exit(0)
	}()
	fmt.Println("ready")
	for number := 0; ; number++ {
		renderTile(number)
		if number%4 == 0 {
			time.Sleep(time.Millisecond)
		}
	}
}
