//! Threads that each do a whole piece of work alone: a shard of a training step, a batch of sentences. Inside it operations see
//! the threads of their worker only, so none waits for others inside a product.

use crate::error::{Error, Result};
use std::sync::atomic::{AtomicUsize, Ordering};

/// Workers, each with a pool of threads of its own.
#[derive(Debug)]
pub struct Workers {
    pools: Vec<rayon::ThreadPool>,
}

impl Workers {
    /// `count` workers that share `threads` threads, each at least one.
    pub fn new(count: usize, threads: usize) -> Result<Self> {
        let pool = |worker: usize| {
            let share = (threads / count + usize::from(worker < threads % count)).max(1);
            let pool = rayon::ThreadPoolBuilder::new().num_threads(share).build();
            pool.map_err(|error| Error::Numeric(format!("cannot start {share} threads: {error}")))
        };
        Ok(Workers { pools: (0..count).map(pool).collect::<Result<_>>()? })
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.pools.len()
    }

    /// How many threads they have together.
    #[cfg(test)]
    pub fn threads(&self) -> usize {
        self.pools.iter().map(rayon::ThreadPool::current_num_threads).sum()
    }

    /// `work(i)` for 0 ≤ i < `jobs`, each by the next worker that is free; the results in order. A panic is an error.
    pub fn map<R: Send>(&self, jobs: usize, work: impl Fn(usize) -> Result<R> + Sync) -> Result<Vec<R>> {
        let next = AtomicUsize::new(0);
        let mine = || {
            let jobs =
                std::iter::from_fn(|| Some(next.fetch_add(1, Ordering::Relaxed)).filter(|&job| job < jobs));
            jobs.map(|job| (job, work(job))).collect::<Vec<_>>()
        };
        let lost = || Error::Numeric("a worker has panicked".into());
        let mut done: Vec<(usize, Result<R>)> = std::thread::scope(|scope| {
            let running: Vec<_> = self.pools.iter().map(|pool| scope.spawn(|| pool.install(mine))).collect();
            let parts: Result<Vec<_>> =
                running.into_iter().map(|one| one.join().map_err(|_| lost())).collect();
            Ok::<_, Error>(parts?.into_iter().flatten().collect())
        })?;
        done.sort_by_key(|&(job, _)| job);
        done.into_iter().map(|(_, result)| result).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_job_is_done_once_and_results_are_in_order() {
        for (count, threads) in [(1, 1), (2, 2), (3, 2), (2, 5)] {
            let workers = Workers::new(count, threads).unwrap();
            assert_eq!((workers.count(), workers.threads()), (count, threads.max(count)));
            for jobs in [0, 1, 20] {
                let found = workers.map(jobs, |job| Ok((job, rayon::current_num_threads()))).unwrap();
                assert_eq!(
                    found.iter().map(|&(job, _)| job).collect::<Vec<_>>(),
                    (0..jobs).collect::<Vec<_>>()
                );
                assert!(found.iter().all(|&(_, threads)| threads <= workers.threads().div_ceil(count)));
            }
        }
    }

    #[test]
    fn a_failure_or_a_panic_of_one_worker_is_an_error() {
        let workers = Workers::new(2, 2).unwrap();
        let failing = |job| if job == 1 { Err(Error::Data("job 1".into())) } else { Ok(()) };
        assert!(workers.map(4, failing).unwrap_err().to_string().contains("job 1"));
        let panicking = |job: usize| if job == 1 { panic!("on purpose") } else { Ok(()) };
        assert!(workers.map(4, panicking).unwrap_err().to_string().contains("panicked"));
    }
}
