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
pub fn batches(lengths: &[(u32, u32)], batch_tokens: usize, seed: u64, epoch: usize) -> Vec<Vec<u32>> {
    plan(lengths, (0..lengths.len() as u32).collect(), batch_tokens, seed, epoch)
}

/// The batches of one epoch of the pairs in `order`, in which a pair may occur as often as it will.
pub(super) fn plan(
    lengths: &[(u32, u32)],
    mut order: Vec<u32>,
    batch_tokens: usize,
    seed: u64,
    epoch: usize,
) -> Vec<Vec<u32>> {
    let mut rng = Rng::new(seed, &format!("batches of epoch {epoch}"));
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
            let with_it = longest.max(src.max(tgt) as usize);
            if !batch.is_empty() && (batch.len() + 1) * with_it > batch_tokens {
                batches.push(std::mem::take(&mut batch));
                longest = 0;
            }
            longest = longest.max(src.max(tgt) as usize);
            batch.push(i);
        }
        batches.push(batch);
    }
    rng.shuffle(&mut batches);
    batches
}

/// The pairs of an epoch, each as often as it is due: `parts` gives how many pairs follow one another with which
/// weight. After E epochs a pair of weight w was seen w·E times, rounded up or down, and so was the whole part.
///
/// Pair i has a phase u_i, one of (r + 1/2)/n for r = 0..n in an order that the seed gives, and epoch e holds it
/// ⌊w(e+1) + u_i⌋ - ⌊we + u_i⌋ times.
pub(super) fn occurrences(parts: &[(usize, f64)], seed: u64, epoch: usize) -> Vec<u32> {
    let (mut order, mut start) = (vec![], 0);
    for (index, &(n, weight)) in parts.iter().enumerate() {
        let pairs = start..start + n as u32;
        start = pairs.end;
        if weight == 1.0 {
            order.extend(pairs);
            continue;
        }
        let mut ranks: Vec<u32> = (0..n as u32).collect();
        Rng::new(seed, &format!("phases of part {index}")).shuffle(&mut ranks);
        for (pair, rank) in pairs.zip(ranks) {
            let phase = (f64::from(rank) + 0.5) / n as f64;
            let seen = |epochs: usize| (weight * epochs as f64 + phase).floor();
            order.extend(std::iter::repeat_n(pair, (seen(epoch + 1) - seen(epoch)) as usize));
        }
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::{any, prop, prop_assert, prop_assert_eq, proptest};

    fn longest(batch: &[u32], lengths: &[(u32, u32)]) -> usize {
        batch.iter().map(|&i| lengths[i as usize].0.max(lengths[i as usize].1)).max().unwrap() as usize
    }

    proptest! {
        #[test]
        fn every_pair_once_and_within_the_budget(
            lengths in prop::collection::vec((1u32..60, 1u32..60), 0..400),
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

    fn some_lengths() -> Vec<(u32, u32)> {
        let mut rng = Rng::new(7, "lengths");
        (0..50_000).map(|_| (1 + rng.below(40) as u32, 1 + rng.below(40) as u32)).collect()
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
        let lengths: Vec<(u32, u32)> =
            (0..50_000).map(|_| 5 + rng.below(30) as u32).map(|n| (n, n)).collect();
        let plan = batches(&lengths, 4096, 1, 1);
        let real: u32 = lengths.iter().map(|(src, _)| src).sum();
        let computed: usize = plan.iter().map(|batch| batch.len() * longest(batch, &lengths)).sum();
        assert!(f64::from(real) > 0.97 * computed as f64, "{real} of {computed}");
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

    /// Each pair w times an epoch: to one over any number of epochs, and the part to one in all.
    #[test]
    fn weights_are_kept_exactly() {
        for weight in [0.1, 0.5, 1.0, 2.0, 2.3] {
            let parts = [(7, 1.0), (101, weight)];
            let mut seen = vec![0usize; 108];
            for epoch in 0..20 {
                let order = occurrences(&parts, 3, epoch);
                assert_eq!(order, occurrences(&parts, 3, epoch));
                order.iter().for_each(|&i| seen[i as usize] += 1);
                let due = weight * 101.0 * (epoch + 1) as f64;
                assert!((seen[7..].iter().sum::<usize>() as f64 - due).abs() <= 0.5001, "{weight} {epoch}");
                assert!(seen[..7].iter().all(|&n| n == epoch + 1));
                let each = weight * (epoch + 1) as f64;
                assert!(seen[7..].iter().all(|&n| (n as f64 - each).abs() < 1.0), "{weight} {epoch}");
            }
        }
        let half = |epoch| occurrences(&[(100, 0.5)], 1, epoch);
        assert_eq!([half(0), half(1)].concat().len(), 100);
        assert_ne!(half(0), (0..50).collect::<Vec<_>>());
        assert_ne!(half(0), occurrences(&[(100, 0.5)], 2, 0));
    }
}
