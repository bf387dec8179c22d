// SPDX-License-Identifier: MIT
//! Rust's panics: caught, nested in destructors, and resumed; closures, trait objects and threads.
//! The log's address is that of the code which calls it.
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};

extern "C" {
    fn calls_enter_here();
    fn calls_exit_here();
}

struct Logged;

impl Logged {
    #[inline(always)]
    fn new() -> Logged {
        unsafe { calls_enter_here() };
        Logged
    }
}

impl Drop for Logged {
    #[inline(always)]
    fn drop(&mut self) {
        unsafe { calls_exit_here() };
    }
}

struct Guard(u32);

impl Drop for Guard {
    #[inline(never)]
    fn drop(&mut self) {
        let _logged = Logged::new();
        std::hint::black_box(self.0);
    }
}

#[inline(never)]
fn leaf(n: u32) -> u32 {
    let _logged = Logged::new();
    if n % 2 == 1 {
        panic!("odd");
    }
    n
}

#[inline(never)]
fn frames(depth: u32, n: u32) -> u32 {
    let _logged = Logged::new();
    if depth == 0 {
        return leaf(n) + 1;
    }
    let guard = Guard(depth);
    frames(depth - 1, n) + guard.0
}

#[inline(never)]
fn caught(depth: u32, n: u32) -> u32 {
    let _logged = Logged::new();
    catch_unwind(|| frames(depth, n)).unwrap_or(7)
}

#[inline(never)]
fn again(n: u32) -> u32 {
    let _logged = Logged::new();
    match catch_unwind(AssertUnwindSafe(|| if n == 0 { leaf(1) } else { again(n - 1) })) {
        Ok(value) => value,
        Err(cause) => resume_unwind(cause),
    }
}

trait Work {
    fn work(&self, n: u32) -> u32;
}

struct Adds(u32);

impl Work for Adds {
    #[inline(never)]
    fn work(&self, n: u32) -> u32 {
        let _logged = Logged::new();
        self.0 + leaf(n * 2)
    }
}

#[inline(never)]
fn objects(all: &[Box<dyn Work>]) -> u32 {
    let _logged = Logged::new();
    all.iter().enumerate().map(|(i, work)| work.work(i as u32)).sum()
}

#[inline(never)]
fn thread() -> u32 {
    let _logged = Logged::new();
    caught(3, 1)
}

#[inline(never)]
fn run() -> u32 {
    let _logged = Logged::new();
    let mut sum = 0;
    for i in 0..60 {
        sum += caught(i % 7, i);
    }
    sum += catch_unwind(|| again(3)).unwrap_or(1);
    sum += objects(&[Box::new(Adds(1)), Box::new(Adds(2))]);
    sum + std::thread::spawn(thread).join().unwrap()
}

fn main() {
    std::panic::set_hook(Box::new(|_| {}));
    std::hint::black_box(run());
}
