//! Seeded randomness for initial weights, dropout and shuffling.
//!
//! candle's generator on the CPU cannot be seeded, so all randomness comes from here. The generator is
//! SplitMix64 (Steele, Lea and Flood 2014), which is a hash of a counter: the i-th number of a stream is
//! `hash(key, i)`. A dropout mask is therefore a function of its key and is regenerated in the backward
//! pass instead of stored, and no result depends on the number of threads.

/// The `index`-th number of the stream `key`: SplitMix64's finaliser over a Weyl sequence.
#[inline(always)]
pub fn hash(key: u64, index: u64) -> u64 {
    let mut z = key.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A stream of random numbers that is a function of its seed.
#[derive(Debug, Clone)]
pub struct Rng {
    key: u64,
    next: u64,
}

impl Rng {
    /// The stream named `name` under `seed`: streams of different names are independent.
    pub fn new(seed: u64, name: &str) -> Self {
        let key = name.bytes().fold(hash(seed, 0), |key, byte| hash(key, u64::from(byte)));
        Rng { key, next: 0 }
    }

    /// The next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        self.next += 1;
        hash(self.key, self.next - 1)
    }

    /// Uniform in [0, 1) with 53 bits.
    pub fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 * 2f64.powi(-53)
    }

    /// Uniform in 0..n, without bias worth measuring for n below 2^32 (Lemire 2019).
    pub fn below(&mut self, n: usize) -> usize {
        ((u128::from(self.next_u64()) * n as u128) >> 64) as usize
    }

    /// Standard normal, by Box and Muller.
    pub fn normal(&mut self) -> f64 {
        let (u, v) = (1.0 - self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (2.0 * std::f64::consts::PI * v).cos()
    }

    /// Fisher and Yates: every order equally likely.
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The published test vector of SplitMix64 with seed 1234567.
    #[test]
    fn hash_is_splitmix64() {
        let numbers: Vec<u64> = (0..3).map(|i| hash(1_234_567, i)).collect();
        assert_eq!(
            numbers,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn normal_has_mean_zero_and_variance_one() {
        let mut rng = Rng::new(1, "test");
        let sample: Vec<f64> = (0..100_000).map(|_| rng.normal()).collect();
        let mean = sample.iter().sum::<f64>() / 1e5;
        let variance = sample.iter().map(|x| x * x).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.01 && (variance - 1.0).abs() < 0.02, "mean {mean}, variance {variance}");
    }

    #[test]
    fn shuffle_keeps_every_item_and_follows_the_seed() {
        let order = |seed| {
            let mut items: Vec<usize> = (0..50).collect();
            Rng::new(seed, "shuffle").shuffle(&mut items);
            items
        };
        assert_eq!(order(1), order(1));
        assert_ne!(order(1), order(2));
        let mut sorted = order(3);
        sorted.sort();
        assert_eq!(sorted, (0..50).collect::<Vec<_>>());
    }
}
