// Leaks through the part of the standard library that its mode names: always in
// the program's own function remember, or in a closure of it. Prints "ready"
// after the first 2 MiB, then goes on for 64 MiB.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::io::Write;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Waker};

#[derive(Clone)]
struct Item {
    price: u64,
    label: [u8; 1000],
}

impl Item {
    fn new(price: u64) -> Item {
        Item { price, label: [b'x'; 1000] }
    }
}

// The value is read, so that the compiler may not leave out the allocation.
fn keep<T>(value: T) {
    unsafe { std::ptr::read_volatile(&std::mem::ManuallyDrop::new(value)) };
}

mod in_vec {
    use super::*;
    #[inline(never)]
    pub fn remember(count: u64) {
        let mut items = Vec::new();
        for i in 0..count {
            items.push(Item::new(i));
        }
        keep(items);
    }
}

mod in_collect {
    use super::*;
    #[inline(never)]
    pub fn remember(count: u64) {
        let items: Vec<Item> = (0..count).filter(|i| i % 100 != 99).map(Item::new).collect();
        keep(items.clone());
        keep(items);
    }
}

mod in_string {
    use super::*;
    #[inline(never)]
    pub fn remember(count: u64) {
        for i in 0..count {
            let mut text = format!("order {} of {}", i, "x".repeat(500));
            text.push_str(&"y".repeat(400));
            keep(text);
        }
    }
}

mod in_hash {
    use super::*;
    #[inline(never)]
    pub fn remember(count: u64) {
        let mut items = HashMap::new();
        for i in 0..count {
            items.entry(i.to_string()).or_insert_with(|| Item::new(i));
        }
        keep(items);
    }
}

mod in_tree {
    use super::*;
    #[inline(never)]
    pub fn remember(count: u64) {
        let mut items = BTreeMap::new();
        for i in 0..count {
            items.insert(i, Item::new(i));
        }
        keep(items);
    }
}

mod in_dyn {
    use super::*;
    trait Priced {
        fn price(&self) -> u64;
    }
    impl Priced for Item {
        fn price(&self) -> u64 {
            self.price + self.label[0] as u64
        }
    }
    #[inline(never)]
    pub fn remember(count: u64) {
        for i in 0..count {
            let item: Box<dyn Priced> = Box::new(Item::new(i));
            assert!(item.price() > 0);
            keep(item);
        }
    }
}

mod in_arc {
    use super::*;
    #[inline(never)]
    pub fn remember(count: u64) {
        let items = Arc::new(Mutex::new(Vec::new()));
        for i in 0..count {
            items.lock().unwrap().push(Arc::new(Item::new(i)));
        }
        keep(items);
    }
}

mod in_thread {
    use super::*;
    #[inline(never)]
    pub fn remember(count: u64) {
        std::thread::spawn(move || {
            let items: Vec<Box<Item>> = (0..count).map(|i| Box::new(Item::new(i))).collect();
            keep(items);
        })
        .join()
        .unwrap();
    }
}

mod in_async {
    use super::*;
    fn waker() -> Waker {
        fn same(_: *const ()) -> RawWaker {
            RawWaker::new(std::ptr::null(), &TABLE)
        }
        fn nothing(_: *const ()) {}
        static TABLE: RawWakerVTable = RawWakerVTable::new(same, nothing, nothing, nothing);
        unsafe { Waker::from_raw(same(std::ptr::null())) }
    }
    #[inline(never)]
    async fn remember_later(count: u64) {
        for i in 0..count {
            keep(vec![i; 125]);
        }
    }
    pub fn remember(count: u64) {
        let mut task: Pin<Box<dyn Future<Output = ()>>> = Box::pin(remember_later(count));
        let waker = waker();
        match task.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(()) => (),
            Poll::Pending => unreachable!(),
        }
    }
}

const MODES: [(&str, fn(u64)); 9] = [
    ("vec", in_vec::remember),
    ("collect", in_collect::remember),
    ("string", in_string::remember),
    ("hash", in_hash::remember),
    ("tree", in_tree::remember),
    ("dyn", in_dyn::remember),
    ("arc", in_arc::remember),
    ("thread", in_thread::remember),
    ("async", in_async::remember),
];

#[inline(never)]
fn load_catalogue() -> Vec<String> {
    (0..300).map(|_| "c".repeat(1000)).collect()
}

#[inline(never)]
fn serve(remember: fn(u64)) {
    for round in 0..1024 {
        remember(64);
        if round == 32 {
            println!("ready");
            std::io::stdout().flush().unwrap();
        }
        if round > 32 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }
    std::thread::sleep(std::time::Duration::from_secs(3600));
}

fn main() {
    let catalogue = load_catalogue();
    let mode = std::env::args().nth(1);
    for (name, remember) in MODES {
        match mode.as_deref() {
            Some(mode) if mode == name => serve(remember),
            Some(_) => (),
            None => println!("{}", name),
        }
    }
    keep(catalogue);
}
