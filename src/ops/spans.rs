//! Which keys a query may see, without padding (paper 3.2.3).
//!
//! Activations are rows of real tokens, sentences one after the other. A [`Span`] pairs the query rows of one
//! sentence with the key rows that they may see; [`Spans`] is a batch of them. The masks of the paper are what
//! the padded twin of attention needs instead: [`key_padding_mask`] and [`causal_mask`].

use std::ops::Range;

use candle_core::{Device, Tensor};

use crate::{Error, Result};

/// The query rows of one sentence (or of all its hypotheses) and the key rows that they may see.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    /// Rows of the query tensor.
    pub q: Range<usize>,
    /// Rows of the key and value tensors.
    pub k: Range<usize>,
}

/// The spans of a batch, in rising order and without overlap on either side. A query row outside every span has
/// the output zero, a key row outside every span the gradient zero.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Spans {
    spans: Vec<Span>,
    causal: bool,
    n_q: usize,
    n_k: usize,
}

/// How many of its `cols` keys each of the `rows` queries of a span sees: all, or with `causal` one fewer for each
/// query before the last, which sees the last key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Visible {
    /// Queries.
    pub rows: usize,
    /// Keys.
    pub cols: usize,
    /// Whether later keys are hidden.
    pub causal: bool,
}

impl Visible {
    /// The number of keys that query `row` sees: the first ones.
    #[inline]
    pub fn of(self, row: usize) -> usize {
        let Self { rows, cols, causal } = self;
        if causal { (row + 1 + cols).saturating_sub(rows).min(cols) } else { cols }
    }

    /// The first query that sees key `col`.
    #[inline]
    pub fn first_row(self, col: usize) -> usize {
        if self.causal { (col + self.rows).saturating_sub(self.cols) } else { 0 }
    }
}

impl Spans {
    /// Spans over `n_q` query rows and `n_k` key rows. Keys shared by several queries (the hypotheses of a beam)
    /// are one span with all those queries: spans that overlap are refused.
    pub fn new(spans: Vec<Span>, causal: bool, n_q: usize, n_k: usize) -> Result<Self> {
        rising("query", spans.iter().map(|span| &span.q), n_q)?;
        rising("key", spans.iter().map(|span| &span.k), n_k)?;
        Ok(Self { spans, causal, n_q, n_k })
    }

    /// Each sentence sees itself: the encoder, or with `causal` the decoder in training.
    pub fn self_attention(lengths: &[usize], causal: bool) -> Self {
        let spans: Vec<Span> = ranges(lengths).map(|rows| Span { q: rows.clone(), k: rows }).collect();
        let n = lengths.iter().sum();
        Self { spans, causal, n_q: n, n_k: n }
    }

    /// The i-th target sentence sees the i-th source sentence.
    pub fn cross(tgt_lengths: &[usize], src_lengths: &[usize]) -> Result<Self> {
        let (tgt, src) = (tgt_lengths.len(), src_lengths.len());
        if tgt != src {
            return Err(Error::Data(format!(
                "cross attention pairs sentences: expected as many source as target lengths, found {src} and {tgt}"
            )));
        }
        let spans = ranges(tgt_lengths).zip(ranges(src_lengths)).map(|(q, k)| Span { q, k }).collect();
        let (n_q, n_k) = (tgt_lengths.iter().sum(), src_lengths.iter().sum());
        Ok(Self { spans, causal: false, n_q, n_k })
    }

    /// Incremental decoding: each of `rows` hypotheses has `new_tokens` queries, and `past` + `new_tokens` keys
    /// of its own.
    pub fn cached(rows: usize, new_tokens: usize, past: usize) -> Self {
        let keys = past + new_tokens;
        let span =
            |row| Span { q: row * new_tokens..(row + 1) * new_tokens, k: row * keys..(row + 1) * keys };
        Self { spans: (0..rows).map(span).collect(), causal: true, n_q: rows * new_tokens, n_k: rows * keys }
    }

    /// The spans, in rising order.
    pub fn spans(&self) -> &[Span] {
        &self.spans
    }

    /// Whether a query sees only the keys up to its own position.
    pub fn causal(&self) -> bool {
        self.causal
    }

    /// Which keys of `span` its queries see.
    pub fn visible(&self, span: &Span) -> Visible {
        Visible { rows: span.q.len(), cols: span.k.len(), causal: self.causal }
    }

    /// The longest query range.
    pub fn max_q(&self) -> usize {
        self.spans.iter().map(|span| span.q.len()).max().unwrap_or(0)
    }

    /// The longest key range.
    pub fn max_k(&self) -> usize {
        self.spans.iter().map(|span| span.k.len()).max().unwrap_or(0)
    }

    /// The rows of the query tensor.
    pub fn n_q(&self) -> usize {
        self.n_q
    }

    /// The rows of the key and value tensors.
    pub fn n_k(&self) -> usize {
        self.n_k
    }

    /// Checks q [n_q, d], k and v [n_k, d] against the spans and the heads; returns d.
    pub fn check(&self, q: &Tensor, k: &Tensor, v: &Tensor, n_heads: usize) -> Result<usize> {
        let ((n_q, d), k_shape, v_shape) = (q.dims2()?, k.dims2()?, v.dims2()?);
        if n_q != self.n_q {
            let expected = self.n_q;
            return Err(Error::Data(format!(
                "attention: expected {expected} query rows, as the spans say, found {n_q}: make the spans from \
                 the lengths of this batch"
            )));
        }
        if k_shape != (self.n_k, d) || v_shape != (self.n_k, d) {
            let expected = self.n_k;
            return Err(Error::Data(format!(
                "attention: expected keys and values of shape [{expected}, {d}], found {k_shape:?} and {v_shape:?}"
            )));
        }
        if n_heads == 0 || d % n_heads != 0 {
            return Err(Error::Config(format!(
                "attention: d_model {d} cannot be split into {n_heads} heads; choose a divisor of d_model"
            )));
        }
        Ok(d)
    }
}

/// The row ranges of sentences of `lengths`, one after the other.
fn ranges(lengths: &[usize]) -> impl Iterator<Item = Range<usize>> {
    lengths.iter().scan(0, |start, length| {
        *start += length;
        Some(*start - length..*start)
    })
}

/// Checks that `ranges` rise without overlap and end within `rows`.
fn rising<'a>(what: &str, ranges: impl Iterator<Item = &'a Range<usize>>, rows: usize) -> Result<()> {
    let mut free = 0;
    for (index, range) in ranges.enumerate() {
        if range.start < free || range.end < range.start || range.end > rows {
            return Err(Error::Data(format!(
                "span {index}: expected {what} rows that rise within {free}..{rows}, found {range:?}; spans may \
                 not overlap"
            )));
        }
        free = range.end;
    }
    Ok(())
}

/// Paper 3.2.3: padded keys are hidden in all three uses of attention. [b, 1, 1, t_k], 1 where the position is a
/// real key.
pub fn key_padding_mask(spans: &Spans, device: &Device) -> Result<Tensor> {
    let (b, t_k) = (spans.spans.len(), spans.max_k());
    let seen = spans.spans.iter().flat_map(|span| (0..t_k).map(|key| u8::from(key < span.k.len())));
    Ok(Tensor::from_vec(seen.collect::<Vec<u8>>(), (b, 1, 1, t_k), device)?)
}

/// Paper 3.2.3: the decoder does not look ahead. [b, 1, t_q, t_k], 1 where the key's position is at most the
/// query's; with keys of the past before the first query the positions count from there.
pub fn causal_mask(spans: &Spans, device: &Device) -> Result<Tensor> {
    let (b, t_q, t_k) = (spans.spans.len(), spans.max_q(), spans.max_k());
    let mut seen = Vec::with_capacity(b * t_q * t_k);
    for span in &spans.spans {
        let visible = spans.visible(span);
        for query in 0..t_q {
            seen.extend((0..t_k).map(|key| u8::from(key < visible.of(query))));
        }
    }
    Ok(Tensor::from_vec(seen, (b, 1, t_q, t_k), device)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::DType;

    /// Two sentences of 3 and 2 tokens: the second is padded to 3.
    #[test]
    fn key_padding_mask_by_hand() {
        let spans = Spans::cross(&[1, 2], &[3, 2]).unwrap();
        let mask = key_padding_mask(&spans, &Device::Cpu).unwrap();
        assert_eq!(mask.dims(), [2, 1, 1, 3]);
        assert_eq!(mask.flatten_all().unwrap().to_vec1::<u8>().unwrap(), [1, 1, 1, 1, 1, 0]);
    }

    #[test]
    fn causal_mask_by_hand() {
        let rows = |spans: &Spans| {
            causal_mask(spans, &Device::Cpu).unwrap().squeeze(1).unwrap().to_vec3::<u8>().unwrap()
        };
        let lower = vec![vec![1, 0, 0], vec![1, 1, 0], vec![1, 1, 1]];
        assert_eq!(rows(&Spans::self_attention(&[3], true)), [lower]);
        // Two new tokens after a past of one: the first sees the past and itself.
        assert_eq!(rows(&Spans::cached(1, 2, 1)), [[[1, 1, 0], [1, 1, 1]]]);
    }

    #[test]
    fn constructors_by_hand() {
        let spans = Spans::self_attention(&[2, 0, 3], false);
        let queries: Vec<_> = spans.spans().iter().map(|span| span.q.clone()).collect();
        assert_eq!(queries, [0..2, 2..2, 2..5]);
        let spans = Spans::cross(&[2, 1], &[4, 0]).unwrap();
        assert_eq!(spans.spans(), [Span { q: 0..2, k: 0..4 }, Span { q: 2..3, k: 4..4 }]);
        let spans = Spans::cached(2, 1, 3);
        assert_eq!(spans.spans(), [Span { q: 0..1, k: 0..4 }, Span { q: 1..2, k: 4..8 }]);
        assert!(spans.causal());
    }

    #[test]
    fn more_queries_than_keys_leave_the_first_without_any() {
        let spans = Spans::new(vec![Span { q: 0..3, k: 0..1 }], true, 3, 1).unwrap();
        let visible = spans.visible(&spans.spans()[0]);
        assert_eq!([0, 1, 2].map(|query| visible.of(query)), [0, 0, 1]);
        assert_eq!(visible.first_row(0), 2);
    }

    #[test]
    fn wrong_spans_are_refused() {
        let message = Spans::cross(&[1, 1], &[2]).unwrap_err().to_string();
        assert!(message.contains("found 1 and 2"), "{message}");
        let overlap = vec![Span { q: 0..1, k: 0..2 }, Span { q: 1..2, k: 1..3 }];
        let message = Spans::new(overlap, false, 2, 3).unwrap_err().to_string();
        assert!(message.contains("span 1: expected key rows that rise within 2..3"), "{message}");
        let beyond = vec![Span { q: 0..3, k: 0..2 }];
        assert!(Spans::new(beyond, false, 2, 2).unwrap_err().to_string().contains("span 0"));
    }

    #[test]
    fn tensors_that_do_not_fit_are_refused() {
        let tensor = |n, d| Tensor::zeros((n, d), DType::F32, &Device::Cpu).unwrap();
        let spans = Spans::cross(&[2], &[3]).unwrap();
        let check = |q, k, v, n_heads| spans.check(&q, &k, &v, n_heads).map_err(|error| error.to_string());
        assert_eq!(check(tensor(2, 4), tensor(3, 4), tensor(3, 4), 2), Ok(4));
        let message = check(tensor(5, 4), tensor(3, 4), tensor(3, 4), 2).unwrap_err();
        assert!(message.contains("expected 2 query rows") && message.contains("found 5"), "{message}");
        let message = check(tensor(2, 4), tensor(3, 4), tensor(2, 4), 2).unwrap_err();
        assert!(message.contains("expected keys and values of shape [3, 4]"), "{message}");
        let message = check(tensor(2, 4), tensor(3, 4), tensor(3, 4), 3).unwrap_err();
        assert!(message.contains("cannot be split into 3 heads"), "{message}");
    }
}
