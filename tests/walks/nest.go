// Touches new pages in known calls, again and again, in the first thread.
package main

import (
	"runtime"
	"syscall"
	"time"
)

const (
	page  = 4096
	pages = 16
)

var sink int

func init() { runtime.LockOSThread() }

//go:noinline
func touch(bytes []byte) {
	for i := 0; i < len(bytes); i += page {
		bytes[i] = 1
	}
	sink++
}

//go:noinline
func fill(bytes []byte) {
	for i := range bytes {
		bytes[i] = 0
	}
	sink++
}

//go:noinline
func inner(function func([]byte)) {
	bytes, _ := syscall.Mmap(-1, 0, page*pages, 3, syscall.MAP_PRIVATE|syscall.MAP_ANON)
	function(bytes)
	syscall.Munmap(bytes)
}

//go:noinline
func outer() {
	inner(touch)
	inner(fill)
	sink++
}

func main() {
	for {
		outer()
		time.Sleep(time.Millisecond)
	}
}
