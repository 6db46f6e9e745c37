//! Data parallelism: a step's batch is cut into shards, each worker computes the gradient of one, and the sum is what a
//! single worker would have found. Workers of one thread each leave no thread waiting inside a product.

use crate::error::{Error, Result};
use crate::ops::add_in_place;
use crate::workers::Workers;
use candle_core::Tensor;
use std::collections::BTreeMap;

/// Tokens of a batch that are worth a worker of their own: with fewer, the products become too small.
const TOKENS_PER_WORKER: usize = 512;

/// Gradients by the name of their parameter, and the sums of which they are the gradient.
#[derive(Debug)]
pub struct Gradients {
    /// By parameter.
    pub named: BTreeMap<String, Tensor>,
    /// The loss, summed and then divided as the caller chose.
    pub loss: f64,
    /// The negative log-likelihood, summed over target tokens.
    pub nll: f64,
}

impl Gradients {
    /// The sum of `parts`, added in their order.
    pub fn total(mut parts: impl Iterator<Item = Result<Gradients>>) -> Result<Gradients> {
        let nothing = || Err(Error::Numeric("no part of the step to add up".into()));
        let mut sum = parts.next().unwrap_or_else(nothing)?;
        parts.try_for_each(|more| sum.add(more?))?;
        Ok(sum)
    }

    fn add(&mut self, other: Gradients) -> Result<()> {
        for (name, grad) in &mut self.named {
            let Some(more) = other.named.get(name) else {
                return Err(Error::Numeric(format!("a worker has no gradient for {name}")));
            };
            add_in_place(grad, more)?;
        }
        self.loss += other.loss;
        self.nll += other.nll;
        Ok(())
    }
}

/// Sums what workers compute: threads here; processes on several hosts or devices would each call `shard` for their own
/// share and exchange the results.
pub trait Reduction {
    /// How many shards a batch is cut into.
    fn shards(&self) -> usize;

    /// Σ of `shard(i)` over all shards, added in the order of i, so that the same shards give the same bits.
    fn sum(&self, shard: &(dyn Fn(usize) -> Result<Gradients> + Sync)) -> Result<Gradients>;
}

/// Workers that are threads of this process.
#[derive(Debug)]
pub struct Threads(Workers);

impl Threads {
    /// As many workers as `threads`, but no more than batches of `batch_tokens` can feed; what is left over helps inside
    /// the products.
    pub fn new(threads: usize, batch_tokens: usize) -> Result<Self> {
        Ok(Threads(Workers::new(threads.min(batch_tokens / TOKENS_PER_WORKER).max(1), threads)?))
    }
}

impl Reduction for Threads {
    fn shards(&self) -> usize {
        self.0.count()
    }

    fn sum(&self, shard: &(dyn Fn(usize) -> Result<Gradients> + Sync)) -> Result<Gradients> {
        Gradients::total(self.0.map(self.shards(), shard)?.into_iter().map(Ok))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    fn gradients(value: f32) -> Gradients {
        let grad = Tensor::new(&[value, 1.0], &Device::Cpu).unwrap();
        Gradients { named: BTreeMap::from([("w".to_string(), grad)]), loss: 1.0, nll: f64::from(value) }
    }

    #[test]
    fn workers_are_those_that_a_batch_can_feed() {
        for (threads, batch_tokens, workers) in
            [(1, 4096, 1), (2, 4096, 2), (2, 500, 1), (16, 4096, 8), (3, 1024, 2)]
        {
            let found = Threads::new(threads, batch_tokens).unwrap().0;
            assert_eq!((found.count(), found.threads()), (workers, threads));
        }
    }

    #[test]
    fn all_shards_are_summed() {
        let sum = Threads::new(3, 4096).unwrap().sum(&|shard| Ok(gradients(shard as f32))).unwrap();
        assert_eq!(sum.named["w"].to_vec1::<f32>().unwrap(), [3.0, 3.0]);
        assert_eq!((sum.loss, sum.nll), (3.0, 3.0));
    }
}
