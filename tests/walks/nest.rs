// Touches new pages in known calls, again and again.
extern "C" {
    fn mmap(at: *mut u8, len: usize, prot: i32, flags: i32, fd: i32, offset: i64) -> *mut u8;
    fn munmap(at: *mut u8, len: usize) -> i32;
}

const PAGE: usize = 4096;
const PAGES: usize = 16;

// So that the caller has something to do after its calls. std::hint::black_box needs Rust 1.66.
fn keep<T>(at: *const T) {
    unsafe { std::ptr::read_volatile(at) };
}

#[no_mangle]
#[inline(never)]
fn touch(bytes: &mut [u8]) {
    for byte in bytes.iter_mut().step_by(PAGE) {
        *byte = 1;
    }
    keep(bytes.as_ptr());
}

#[no_mangle]
#[inline(never)]
fn inner(n: usize) {
    unsafe {
        let at = mmap(std::ptr::null_mut(), PAGE * PAGES, 3, 0x22, -1, 0);
        touch(std::slice::from_raw_parts_mut(at, PAGE * PAGES));
        munmap(at, PAGE * PAGES);
    }
    keep(&n);
}

#[no_mangle]
#[inline(never)]
fn outer(n: usize) {
    let mut list = Vec::new();
    for i in 0..n {
        inner(i);
        list.push(i);
    }
    keep(list.as_ptr());
}

fn main() {
    loop {
        outer(3);
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}
