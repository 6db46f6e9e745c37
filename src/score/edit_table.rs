//! The table of edit distances under TER, with sacreBLEU's beam around the diagonal, and the alignment read back from it.
//!
//! Departs: sacreBLEU keeps a trie of all rows it has seen; here the distance of a shifted hypothesis restarts at the
//! first row that the shift changes. Rows hold the same numbers, so the scores are the same.

const BEAM_WIDTH: usize = 25;
/// Larger than any distance: what lies outside the beam.
const FAR: u32 = 1 << 30;

/// Which word of the hypothesis each word of the reference is aligned with, and which words are wrong.
#[derive(Debug)]
pub(super) struct Alignment {
    /// One past the aligned position, so 0 is "before the first".
    pub after: Vec<usize>,
    pub ref_wrong: Vec<bool>,
    pub hyp_wrong: Vec<bool>,
}

/// An edit that leads to a cell of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Edit {
    Keep,
    Substitute,
    Insert,
    Delete,
}

/// One row of the table: the columns from `start` on that lie within the beam.
#[derive(Clone, Copy)]
struct Row<'a> {
    start: usize,
    cells: &'a [u32],
}

impl Row<'_> {
    fn get(self, column: usize) -> u32 {
        // A column before the start wraps around to one far behind the end.
        self.cells.get(column.wrapping_sub(self.start)).copied().unwrap_or(FAR)
    }
}

/// Edit distances between the beginnings of a hypothesis and of a reference. Row i, column j has the first i words of the
/// one against the first j of the other. Only the columns within the beam are stored, so memory grows with the number of
/// words and not with its square.
pub(super) struct EditTable<'a> {
    /// The hypothesis with the shifts made so far.
    pub hypothesis: Vec<u32>,
    pub reference: &'a [u32],
    /// First column of each row.
    starts: Vec<usize>,
    /// Where each row begins in `cells`, and the end of the last.
    offsets: Vec<usize>,
    cells: Vec<u32>,
    /// The same for a shifted hypothesis, from the first row that differs.
    trial: Vec<u32>,
}

impl<'a> EditTable<'a> {
    pub fn new(hypothesis: &[u32], reference: &'a [u32]) -> Self {
        let (mut starts, mut offsets) = (Vec::new(), vec![0]);
        let mut size = 0;
        for i in 0..=hypothesis.len() {
            let beam = beam(i, hypothesis.len(), reference.len());
            starts.push(beam.start);
            size += beam.len();
            offsets.push(size);
        }
        let mut cells = vec![FAR; size];
        for (j, cell) in cells[..=reference.len()].iter_mut().enumerate() {
            *cell = j as u32;
        }
        let trial = cells.clone();
        let mut table = EditTable { hypothesis: Vec::new(), reference, starts, offsets, cells, trial };
        table.replace_hypothesis(hypothesis.to_vec());
        table
    }

    /// Row `i` of `cells`, which may be those of a trial.
    fn row<'c>(&self, cells: &'c [u32], i: usize) -> Row<'c> {
        Row { start: self.starts[i], cells: &cells[self.offsets[i]..self.offsets[i + 1]] }
    }

    /// Fills the table for another hypothesis of the same length.
    pub fn replace_hypothesis(&mut self, hypothesis: Vec<u32>) {
        let mut cells = std::mem::take(&mut self.cells);
        for (i, &word) in hypothesis.iter().enumerate() {
            let (above, below) = cells.split_at_mut(self.offsets[i + 1]);
            let len = self.offsets[i + 2] - self.offsets[i + 1];
            fill_row(word, self.reference, self.row(above, i), self.starts[i + 1], &mut below[..len]);
        }
        self.cells = cells;
        self.hypothesis = hypothesis;
    }

    /// The distance between hypothesis and reference.
    pub fn distance(&self) -> u32 {
        self.cells[self.cells.len() - 1]
    }

    /// The distance of `shifted`, whose first `same` words are those of the hypothesis.
    pub fn distance_of(&mut self, shifted: &[u32], same: usize) -> u32 {
        let mut trial = std::mem::take(&mut self.trial);
        for (i, &word) in shifted.iter().enumerate().skip(same) {
            let (above, below) = trial.split_at_mut(self.offsets[i + 1]);
            let above = self.row(if i == same { &self.cells } else { above }, i);
            let len = self.offsets[i + 2] - self.offsets[i + 1];
            fill_row(word, self.reference, above, self.starts[i + 1], &mut below[..len]);
        }
        self.trial = trial;
        self.trial[self.trial.len() - 1]
    }

    /// The edit by which the cell at row `i`, column `j` was reached: keep or substitute before delete before insert.
    fn edit_at(&self, i: usize, j: usize) -> Edit {
        if i == 0 {
            return Edit::Insert;
        }
        if j == 0 {
            return Edit::Delete;
        }
        let (above, row) = (self.row(&self.cells, i - 1), self.row(&self.cells, i));
        let same = self.hypothesis[i - 1] == self.reference[j - 1];
        if row.get(j) == above.get(j - 1) + u32::from(!same) {
            if same { Edit::Keep } else { Edit::Substitute }
        } else if row.get(j) == above.get(j) + 1 {
            Edit::Delete
        } else {
            Edit::Insert
        }
    }

    /// Reads the best edits back from the end of the table.
    pub fn alignment(&self) -> Alignment {
        let (mut i, mut j) = (self.hypothesis.len(), self.reference.len());
        let mut alignment =
            Alignment { after: vec![0; j], ref_wrong: vec![true; j], hyp_wrong: vec![true; i] };
        while i > 0 || j > 0 {
            let edit = self.edit_at(i, j);
            if edit != Edit::Delete {
                j -= 1;
                alignment.after[j] = i;
            }
            if edit != Edit::Insert {
                i -= 1;
            }
            if edit == Edit::Keep {
                (alignment.ref_wrong[j], alignment.hyp_wrong[i]) = (false, false);
            }
        }
        alignment
    }
}

/// The columns of row `i` that are computed: a band around the diagonal of the table, and all in the first row and to
/// the end in the last.
fn beam(i: usize, n_hyp: usize, n_ref: usize) -> std::ops::Range<usize> {
    if i == 0 {
        return 0..n_ref + 1;
    }
    let slope = n_ref as f64 / n_hyp as f64;
    let width = if (BEAM_WIDTH as f64) < slope / 2.0 {
        (slope / 2.0 + BEAM_WIDTH as f64).ceil() as usize
    } else {
        BEAM_WIDTH
    };
    let diagonal = (i as f64 * slope).floor() as usize;
    let end = if i == n_hyp { n_ref + 1 } else { (n_ref + 1).min(diagonal + width) };
    diagonal.saturating_sub(width)..end
}

/// Levenshtein's recurrence for one word of the hypothesis, over the columns from `start` on.
fn fill_row(word: u32, reference: &[u32], above: Row, start: usize, row: &mut [u32]) {
    let mut left = FAR;
    for (j, cell) in (start..).zip(row) {
        let matched = if j > 0 { above.get(j - 1) + u32::from(word != reference[j - 1]) } else { FAR };
        *cell = matched.min(above.get(j) + 1).min(left + 1).min(FAR);
        left = *cell;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// kitten, sitting: substitute k and e, insert g.
    #[test]
    fn alignment_of_kitten_and_sitting() {
        let ids = |text: &str| text.bytes().map(u32::from).collect::<Vec<_>>();
        let (hypothesis, reference) = (ids("kitten"), ids("sitting"));
        let mut table = EditTable::new(&hypothesis, &reference);
        assert_eq!(table.distance(), 3);
        let alignment = table.alignment();
        assert_eq!(alignment.after, [1, 2, 3, 4, 5, 6, 6]);
        assert_eq!(alignment.hyp_wrong, [true, false, false, false, true, false]);
        assert_eq!(alignment.ref_wrong, [true, false, false, false, true, false, true]);
        assert_eq!((table.distance_of(&ids("kittin"), 4), table.distance()), (2, 3));
    }

    /// 100 words against 300: the diagonal of row 50 is column 150, 25 on either side of it are kept.
    #[test]
    fn beam_follows_the_diagonal() {
        assert_eq!(
            (beam(0, 100, 300), beam(50, 100, 300), beam(100, 100, 300)),
            (0..301, 125..175, 275..301)
        );
        // 2 words against 200: half a step is 50 columns, wider than the beam, which grows to meet the next.
        assert_eq!((beam(1, 2, 200), beam(2, 2, 200)), (25..175, 125..201));
    }
}
