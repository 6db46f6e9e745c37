//! Which pairs go together (paper section 5.1): batches by number of tokens, of pairs of like length.
//!
//! The plan of an epoch is a function of the lengths, the token budget, the seed and the epoch number
//! alone. So a run that is resumed makes the same plan and goes on where it stopped, and no two epochs
//! have one order.

use crate::rng::Rng;

/// Pairs that are sorted by length together: large enough for little difference inside a batch, small
/// enough that a batch is a fresh mixture in every epoch.
const WINDOW: usize = 20_000;

/// The batches of one epoch: every pair of `lengths` (source, target) is in exactly one, and the number of
/// its pairs × their longest side is at most `batch_tokens`. A longer pair is a batch of its own.
pub fn batches(lengths: &[(usize, usize)], batch_tokens: usize, seed: u64, epoch: usize) -> Vec<Vec<u32>> {
    let mut rng = Rng::new(seed, &format!("batches of epoch {epoch}"));
    let mut order: Vec<u32> = (0..lengths.len() as u32).collect();
    rng.shuffle(&mut order);
    let mut batches: Vec<Vec<u32>> = vec![];
    for window in order.chunks_mut(WINDOW) {
        // The sort is stable: pairs of the same lengths stay shuffled.
        window.sort_by_key(|&i| {
            let (src, tgt) = lengths[i as usize];
            (tgt, src)
        });
        let mut batch = vec![];
        let mut longest = 0;
        for &i in &*window {
            let (src, tgt) = lengths[i as usize];
            let with_it = longest.max(src).max(tgt);
            if !batch.is_empty() && (batch.len() + 1) * with_it > batch_tokens {
                batches.push(std::mem::take(&mut batch));
                longest = 0;
            }
            longest = longest.max(src).max(tgt);
            batch.push(i);
        }
        batches.push(batch);
    }
    rng.shuffle(&mut batches);
    batches
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

    fn longest(batch: &[u32], lengths: &[(usize, usize)]) -> usize {
        batch.iter().map(|&i| lengths[i as usize].0.max(lengths[i as usize].1)).max().unwrap()
    }

    proptest! {
        #[test]
        fn every_pair_once_and_within_the_budget(
            lengths in prop::collection::vec((1usize..60, 1usize..60), 0..400),
            batch_tokens in 1usize..500,
            seed in any::<u64>(),
            epoch in 0usize..100,
        ) {
            let plan = batches(&lengths, batch_tokens, seed, epoch);
            let mut all: Vec<u32> = plan.concat();
            all.sort();
            prop_assert_eq!(all, (0..lengths.len() as u32).collect::<Vec<_>>());
            for batch in &plan {
                prop_assert!(batch.len() == 1 || batch.len() * longest(batch, &lengths) <= batch_tokens);
            }
        }
    }

    fn some_lengths() -> Vec<(usize, usize)> {
        let mut rng = Rng::new(7, "lengths");
        (0..50_000).map(|_| (1 + rng.below(40), 1 + rng.below(40))).collect()
    }

    /// The order is a function of seed and epoch, and another one in each epoch.
    #[test]
    fn the_order_follows_seed_and_epoch() {
        let lengths = some_lengths();
        let plan = batches(&lengths, 4096, 1, 1);
        assert_eq!(plan, batches(&lengths, 4096, 1, 1));
        assert_ne!(plan, batches(&lengths, 4096, 1, 2));
        assert_ne!(plan, batches(&lengths, 4096, 2, 1));
        // Not only the batches change places, their company changes.
        let sets = |plan: &[Vec<u32>]| {
            let mut sets: Vec<Vec<u32>> = plan.to_vec();
            sets.iter_mut().for_each(|set| set.sort());
            sets.sort();
            sets
        };
        let (one, two) = (sets(&plan), sets(&batches(&lengths, 4096, 1, 2)));
        assert!(one.iter().filter(|set| two.binary_search(set).is_ok()).count() < 3);
    }

    /// Like lengths together: few positions would be padding.
    #[test]
    fn batches_are_nearly_full() {
        let mut rng = Rng::new(7, "lengths");
        let lengths: Vec<(usize, usize)> = (0..50_000).map(|_| 5 + rng.below(30)).map(|n| (n, n)).collect();
        let plan = batches(&lengths, 4096, 1, 1);
        let real: usize = lengths.iter().map(|(src, _)| src).sum();
        let computed: usize = plan.iter().map(|batch| batch.len() * longest(batch, &lengths)).sum();
        assert!((real as f64) > 0.97 * computed as f64, "{real} of {computed}");
        assert!(computed as f64 > 0.95 * (plan.len() * 4096) as f64, "{} batches", plan.len());
    }

    /// One giant pair is alone and does not make others too large.
    #[test]
    fn a_giant_pair_is_a_batch_of_its_own() {
        let mut lengths = vec![(5, 5); 20];
        lengths[4] = (3000, 3000);
        let plan = batches(&lengths, 50, 1, 1);
        assert!(plan.contains(&vec![4]));
        assert!(plan.iter().all(|batch| batch.contains(&4) || batch.len() <= 10));
        assert_eq!(plan.len(), 1 + 2);
    }
}
