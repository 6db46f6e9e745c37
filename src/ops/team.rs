//! Threads that stay awake between small pieces of work.
//!
//! A decoding step of one sentence has some forty products of 20 to 200 microseconds, one after the other. Waking a thread takes
//! as long as such a product, so while a sentence is decoded alone, [`together`] keeps the threads of the current rayon
//! pool spinning, and [`for_each`] hands out its tasks through one counter. Elsewhere `for_each` is rayon's.

use std::cell::Cell;
use std::hint::spin_loop;
use std::ptr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread::{ThreadId, current, panicking, yield_now};

use rayon::prelude::*;

/// A piece of work: how many tasks it has, and what does one of them.
type Work<'a> = (usize, &'a (dyn Fn(usize) + Sync));

thread_local! {
    /// The team that this thread leads.
    static LED: Cell<*const Team> = const { Cell::new(ptr::null()) };
}

/// What a leader and its helpers share.
struct Team {
    /// Even between two pieces of work, odd while there is one, [`DISMISSED`] at the end.
    round: AtomicUsize,
    /// The next task.
    next: AtomicUsize,
    /// Helpers that may be looking at `work`.
    busy: AtomicUsize,
    /// Whether a task of a helper has panicked.
    broken: AtomicBool,
    leader: OnceLock<ThreadId>,
    /// Written by the leader in even rounds while nobody is busy, read by busy helpers in odd ones.
    work: Cell<Work<'static>>,
}

// SAFETY: all but `work` are atomic, and `work` is never read and written at once, as it says.
unsafe impl Sync for Team {}

const DISMISSED: usize = usize::MAX;

/// Spins after which a waiting thread offers its processor to others.
const SPINS: usize = 1 << 12;

/// Runs something when it goes, also in a panic.
struct Finally<F: Fn()>(F);

impl<F: Fn()> Drop for Finally<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// Waits until `done`.
fn wait(done: impl Fn() -> bool) {
    for spins in 1.. {
        if done() {
            return;
        }
        if spins % SPINS == 0 { yield_now() } else { spin_loop() }
    }
}

impl Team {
    /// Helps until dismissed. The leader, who may come here while it waits for something of rayon's, goes on at once.
    fn help(&self) {
        if self.leader.get() == Some(&current().id()) {
            return;
        }
        let mut seen = 0;
        loop {
            wait(|| self.round.load(SeqCst) != seen);
            seen = self.round.load(SeqCst);
            if seen == DISMISSED {
                return;
            }
            if seen % 2 == 1 {
                self.busy.fetch_add(1, SeqCst);
                let _leave = Finally(|| {
                    self.broken.fetch_or(panicking(), SeqCst);
                    self.busy.fetch_sub(1, SeqCst);
                });
                // Either the round is over, or its leader will see that this thread is busy and wait for it.
                if self.round.load(SeqCst) == seen {
                    self.take(self.work.get());
                }
            }
        }
    }

    /// Does tasks while there are any.
    fn take(&self, (tasks, task): Work) {
        loop {
            let mine = self.next.fetch_add(1, SeqCst);
            if mine >= tasks {
                return;
            }
            task(mine);
        }
    }

    /// Does all of `work` with the helpers that are there.
    fn lead(&self, work: Work) {
        // SAFETY: `work` outlives the round, at whose end no helper looks at it any more.
        self.work.set(unsafe { std::mem::transmute::<Work<'_>, Work<'static>>(work) });
        self.next.store(0, SeqCst);
        self.round.fetch_add(1, SeqCst);
        {
            let _end = Finally(|| {
                self.round.fetch_add(1, SeqCst);
                wait(|| self.busy.load(SeqCst) == 0);
            });
            self.take(work);
        }
        assert!(!self.broken.load(SeqCst), "a thread has panicked");
    }
}

/// Runs `lead` on a thread of the current pool; the other threads stay awake for what `for_each` gives them meanwhile.
pub fn together<R: Send>(lead: impl FnOnce() -> R + Send) -> R {
    let helpers = rayon::current_num_threads() - 1;
    if helpers == 0 {
        return lead();
    }
    let team = Team {
        round: AtomicUsize::new(0),
        next: AtomicUsize::new(0),
        busy: AtomicUsize::new(0),
        broken: AtomicBool::new(false),
        leader: OnceLock::new(),
        work: Cell::new((0, &|_| {})),
    };
    let team = &team;
    rayon::scope(|scope| {
        team.leader.get_or_init(|| current().id());
        (0..helpers).for_each(|_| scope.spawn(|_| team.help()));
        let before = LED.replace(team);
        let _end = Finally(|| {
            team.round.store(DISMISSED, SeqCst);
            LED.set(before);
        });
        lead()
    })
}

/// `task(i)` for every i below `tasks`, on all threads.
pub fn for_each(tasks: usize, task: impl Fn(usize) + Sync + Send) {
    match LED.get() {
        team if team.is_null() => (0..tasks).into_par_iter().for_each(task),
        // SAFETY: `together` takes it away before the team goes. A task that comes here again would find the team at work, so
        // it is led by nobody meanwhile.
        team => {
            let _again = Finally(|| LED.set(team));
            LED.set(ptr::null());
            unsafe { &*team }.lead((tasks, &task));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::Mutex;
    use std::time::{Duration, Instant};

    use super::*;

    fn pool(threads: usize) -> rayon::ThreadPool {
        rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
    }

    fn all_done(tasks: usize) {
        let done: Vec<AtomicUsize> = (0..tasks).map(|_| AtomicUsize::new(0)).collect();
        for_each(tasks, |i| _ = done[i].fetch_add(1, SeqCst));
        assert!(done.iter().all(|count| count.load(SeqCst) == 1));
    }

    #[test]
    fn every_task_is_done_once() {
        for threads in 1..=4 {
            pool(threads).install(|| {
                all_done(20);
                together(|| (0..2000).for_each(|round| all_done(round % 7)));
                all_done(20);
            });
        }
    }

    #[test]
    fn all_threads_take_part() {
        let wait_for_both = |seen: &Mutex<Vec<_>>| {
            seen.lock().unwrap().push(std::thread::current().id());
            let start = Instant::now();
            while seen.lock().unwrap().len() < 2 && start.elapsed() < Duration::from_secs(10) {}
        };
        let seen = Mutex::new(Vec::new());
        pool(2).install(|| together(|| for_each(2, |_| wait_for_both(&seen))));
        let seen = seen.into_inner().unwrap();
        assert!(seen.len() == 2 && seen[0] != seen[1], "{seen:?}");
    }

    #[test]
    fn work_inside_work_and_teams_inside_teams() {
        pool(3).install(|| {
            together(|| for_each(3, |_| all_done(5)));
            together(|| {
                together(|| all_done(5));
                all_done(5);
            });
        });
    }

    #[test]
    fn a_panic_reaches_the_leader_and_the_pool_works_on() {
        let pool = pool(2);
        let panicking = || for_each(50, |i| assert!(i != 7, "on purpose"));
        let caught = catch_unwind(AssertUnwindSafe(|| pool.install(|| together(panicking))));
        assert!(caught.is_err());
        pool.install(|| together(|| all_done(9)));
    }
}
