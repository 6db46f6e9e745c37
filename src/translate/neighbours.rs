//! Which pieces the model holds for alike: the cosine between the rows of its embedding.

use super::Translator;
use crate::error::{Error, Result};
use serde::Serialize;

/// A piece near another.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Neighbour {
    /// The piece.
    pub piece: String,
    /// Cosine of the angle between the two rows, from -1 to 1.
    pub cosine: f32,
}

/// The neighbours of a word's pieces, in the embedding of one language.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Neighbours {
    /// `source`, `target`, or `joint` where both have one embedding.
    pub embedding: &'static str,
    /// For each piece of the word its neighbours, nearest first.
    pub pieces: Vec<(String, Vec<Neighbour>)>,
}

impl Translator {
    /// The `count` nearest neighbours of each piece of `word`.
    pub fn neighbours(&self, word: &str, count: usize) -> Result<Vec<Neighbours>> {
        let [model] = self.models() else {
            return Err(Error::Config(
                "embeddings are those of one model: look at the models one by one".into(),
            ));
        };
        let [src, tgt] = model.embeddings()?;
        let is_joint = model.config().tie == crate::config::Tie::All;
        let sides = [
            (if is_joint { "joint" } else { "source" }, self.tokenizer(), src),
            ("target", self.tgt_tokenizer(), tgt),
        ];
        let mut found = Vec::new();
        for (embedding, tokenizer, table) in sides.into_iter().take(if is_joint { 1 } else { 2 }) {
            let mut ids = tokenizer.encode(&crate::text::clean(word))?;
            ids.pop();
            if ids.is_empty() {
                return Err(Error::Data(format!("{word:?} has no pieces")));
            }
            let rows: Vec<Vec<f32>> = table.to_vec2()?;
            let pieces = ids.iter().map(|&id| {
                (
                    tokenizer.piece(id).to_string(),
                    nearest(&rows[..tokenizer.vocab_size()], id as usize, count, |id| {
                        tokenizer.piece(id as u32).to_string()
                    }),
                )
            });
            found.push(Neighbours { embedding, pieces: pieces.collect() });
        }
        Ok(found)
    }
}

/// The `count` rows nearest to row `of`, without itself; of equal ones the first.
fn nearest(rows: &[Vec<f32>], of: usize, count: usize, name: impl Fn(usize) -> String) -> Vec<Neighbour> {
    let dot =
        |a: &[f32], b: &[f32]| -> f64 { a.iter().zip(b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum() };
    let length = |row: &[f32]| dot(row, row).sqrt();
    let own = &rows[of];
    let cosine = |row: &Vec<f32>| {
        let lengths = length(own) * length(row);
        // A row of zeros points nowhere.
        if lengths > 0.0 { (dot(own, row) / lengths) as f32 } else { 0.0 }
    };
    let mut all: Vec<(usize, f32)> =
        rows.iter().map(cosine).enumerate().filter(|(id, _)| *id != of).collect();
    all.sort_by(|a, b| b.1.total_cmp(&a.1));
    all.into_iter().take(count).map(|(id, cosine)| Neighbour { piece: name(id), cosine }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nearest_by_hand() {
        let rows = [vec![1.0, 0.0], vec![-2.0, 0.0], vec![3.0, 4.0], vec![0.0, 0.0], vec![0.5, 0.0]];
        let found = nearest(&rows, 0, 3, |id| id.to_string());
        let expected = [("4", 1.0), ("2", 0.6), ("3", 0.0)];
        assert_eq!(found, expected.map(|(piece, cosine)| Neighbour { piece: piece.into(), cosine }));
        assert_eq!(nearest(&rows, 0, 9, |id| id.to_string()).len(), 4);
        assert_eq!(nearest(&rows, 0, 9, |id| id.to_string())[3].cosine, -1.0);
    }
}
