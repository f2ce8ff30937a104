// Generic functions, closures and trait objects: names of Rust.
use std::collections::BTreeMap;

trait Shape {
    fn area(&self) -> u64;
}

struct Square(u64);

impl Shape for Square {
    #[inline(never)]
    fn area(&self) -> u64 {
        self.0 * self.0
    }
}

mod inner {
    #[inline(always)]
    fn leaf(x: u64) -> u64 {
        x.wrapping_mul(7) + 1
    }

    #[inline(never)]
    pub fn fold<T: Copy + Into<u64>>(items: &[T]) -> u64 {
        items.iter().map(|item| leaf((*item).into())).sum()
    }
}

fn main() {
    let shapes: Vec<Box<dyn Shape>> = (0..9).map(|i| Box::new(Square(i)) as Box<dyn Shape>).collect();
    let mut names = BTreeMap::new();
    for shape in &shapes {
        *names.entry(format!("{}", shape.area())).or_insert(0u64) += 1;
    }
    println!("{} {}", inner::fold(&[1u32, 2, 3]), inner::fold(&[4u8, 5]) + names.len() as u64);
}
