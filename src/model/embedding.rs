//! Token embeddings and positional encoding (sections 3.4 and 3.5).

use super::pass::Pass;
use super::walk::Quantity;
use crate::config::{Config, Positions};
use crate::error::Result;
use crate::ops::{self, Lookup, PackedLinear};
use candle_core::{Device, Tensor};
use std::ops::Range;
use std::sync::Arc;

/// PE(pos, 2i) = sin(pos / 10000^(2i/d)) and PE(pos, 2i+1) = cos(the same), as a table [n, d] of the positions `rows`.
/// `Halves` has the same columns, all sines first; `T2t` too, but with i/(d/2-1) in place of 2i/d.
pub fn positional_encoding(
    rows: Range<usize>,
    d: usize,
    layout: Positions,
    device: &Device,
) -> Result<Tensor> {
    let n = rows.len();
    let mut table = vec![0f32; n * d];
    for (pos, row) in rows.zip(table.chunks_exact_mut(d.max(1))) {
        for i in 0..d / 2 {
            let (sin_at, cos_at, exponent) = match layout {
                Positions::Interleaved => (2 * i, 2 * i + 1, 2.0 * i as f64 / d as f64),
                Positions::Halves => (i, d / 2 + i, 2.0 * i as f64 / d as f64),
                Positions::T2t => (i, d / 2 + i, i as f64 / (d as f64 / 2.0 - 1.0)),
            };
            let angle = pos as f64 / 10_000f64.powf(exponent);
            row[sin_at] = angle.sin() as f32;
            row[cos_at] = angle.cos() as f32;
        }
    }
    Ok(Tensor::from_vec(table, (n, d), device)?)
}

/// The matrix E of an embedding, [v, d].
#[derive(Debug)]
pub enum Table {
    /// Differentiable, on every device.
    Dense(Tensor),
    /// For decoding on a CPU; the output projection may be the same.
    Packed(Arc<PackedLinear>),
}

/// x = dropout(E\[id\] · √d + PE(pos))
#[derive(Debug)]
pub struct Embedding {
    name: String,
    table: Table,
    positions: Tensor,
    scale: f64,
    dropout: f32,
}

impl Embedding {
    /// An embedding over the positional encoding `positions` [n_positions, d].
    pub fn new(config: &Config, (name, table): (&str, Table), positions: Tensor) -> Self {
        let scale = if config.scale_embedding { (config.d_model as f64).sqrt() } else { 1.0 };
        Embedding { name: name.to_string(), table, positions, scale, dropout: config.dropout.residual }
    }

    /// The rows [n, d] of the table for `ids`.
    pub fn rows(&self, ids: &[u32]) -> Result<Tensor> {
        match &self.table {
            Table::Dense(weight) => Ok(weight.index_select(&Tensor::new(ids, weight.device())?, 0)?),
            Table::Packed(weight) => weight.rows(ids),
        }
    }

    /// Rows [n, d] of the tokens `ids`, row i at position `positions[i]` of its sentence.
    pub fn forward(&self, ids: &[u32], positions: &[u32], pass: &mut Pass) -> Result<Tensor> {
        let dropout = pass.next_dropout(self.dropout);
        let lookup = |ids| Lookup { ids, positions, scale: self.scale, dropout };
        let x = match &self.table {
            Table::Dense(weight) => ops::embedding(weight, &self.positions, &lookup(ids))?,
            Table::Packed(weight) => {
                let every: Vec<u32> = (0..ids.len() as u32).collect();
                ops::embedding(&weight.rows(ids)?, &self.positions, &lookup(&every))?
            }
        };
        pass.note(&self.name, Quantity::Embedding, || self.rows(ids))?;
        pass.note(&self.name, Quantity::ScaledEmbedding, || Ok((self.rows(ids)? * self.scale)?))?;
        let at =
            |places| Ok(self.positions.index_select(&Tensor::new(places, self.positions.device())?, 0)?);
        pass.note("computed", Quantity::Positions, || at(positions))?;
        pass.note(&self.name, Quantity::Input, || Ok(x.clone()))?;
        Ok(x)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(n: usize, d: usize, layout: Positions) -> Vec<Vec<f32>> {
        positional_encoding(0..n, d, layout, &Device::Cpu).unwrap().to_vec2().unwrap()
    }

    /// d = 4: frequencies 1 and 1/100. sin 1 = 0.841471, cos 1 = 0.540302, sin 0.01 = 0.0099998, cos 0.01 = 0.99995.
    #[test]
    fn positional_encoding_by_hand() {
        let rows = table(2, 4, Positions::Interleaved);
        assert_eq!(rows[0], [0.0, 1.0, 0.0, 1.0]);
        for (found, expected) in rows[1].iter().zip([0.841_471, 0.540_302, 0.009_999_8, 0.999_95]) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
    }

    #[test]
    fn halves_are_the_same_columns_permuted() {
        let (interleaved, halves) = (table(50, 6, Positions::Interleaved), table(50, 6, Positions::Halves));
        for (a, b) in interleaved.iter().zip(&halves) {
            assert_eq!(*b, [a[0], a[2], a[4], a[1], a[3], a[5]]);
        }
    }

    /// d = 6: frequencies 1, 1/100 and 1/10000, where `halves` has 1, 10000^(-1/3) and 10000^(-2/3).
    #[test]
    fn t2t_has_its_own_frequencies() {
        let row = &table(3, 6, Positions::T2t)[2];
        for (found, expected) in row.iter().zip([0.909_297, 0.019_998_7, 0.000_2, -0.416_147, 0.999_8, 1.0]) {
            assert!((found - expected).abs() < 1e-6, "{found} {expected}");
        }
        let later = positional_encoding(2..5, 6, Positions::T2t, &Device::Cpu).unwrap();
        assert_eq!(later.to_vec2::<f32>().unwrap()[0], *row);
    }

    /// PE(pos + δ) is PE(pos) with each (sin, cos) pair turned by the angle δ / 10000^(2i/d).
    #[test]
    fn an_offset_is_a_rotation() {
        let (d, delta) = (8, 7);
        let rows = table(40, d, Positions::Interleaved);
        for pos in 0..33 {
            for i in 0..d / 2 {
                let angle = delta as f64 / 10_000f64.powf(2.0 * i as f64 / d as f64);
                let (sin, cos) = (f64::from(rows[pos][2 * i]), f64::from(rows[pos][2 * i + 1]));
                let turned = sin * angle.cos() + cos * angle.sin();
                assert!((turned - f64::from(rows[pos + delta][2 * i])).abs() < 1e-6);
            }
        }
    }

    /// E[1] · √4 + PE(1) with E[1] = (1, 2, 3, 4).
    #[test]
    fn embedding_is_scaled_and_shifted_by_position() {
        let config = Config { d_model: 4, ..Config::new(crate::config::Preset::Tiny, 4) };
        let weight = Tensor::new(&[[0f32; 4], [1., 2., 3., 4.]], &Device::Cpu).unwrap();
        let positions = positional_encoding(0..8, 4, Positions::Halves, &Device::Cpu).unwrap();
        let embedding = Embedding::new(&config, ("E", Table::Dense(weight)), positions);
        let row = embedding.forward(&[1], &[1], &mut Pass::inference()).unwrap().to_vec2::<f32>().unwrap();
        for (found, expected) in row[0].iter().zip([2.841_471, 4.009_999_8, 6.540_302, 8.999_95]) {
            assert!((found - expected).abs() < 1e-5, "{found} {expected}");
        }
        let error = embedding.forward(&[2], &[0], &mut Pass::inference()).unwrap_err().to_string();
        assert!(error.contains("token id 2 lies outside the embedding of 2 rows"), "{error}");
    }
}
