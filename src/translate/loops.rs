//! Translations that go round in circles.

/// Pieces that one round of a loop has at most.
const LONGEST: usize = 8;

/// Rounds that make a loop, if the source has less than half as many.
const ROUNDS: usize = 4;

/// How often in a row the translation `tgt` says the same, if it is a loop that the source `src` has no reason for.
pub(super) fn rounds_of_loop(src: &[u32], tgt: &[u32]) -> Option<usize> {
    let found = rounds(tgt);
    (found >= ROUNDS && found > 2 * rounds(src)).then_some(found)
}

/// The most rounds in which up to [`LONGEST`] tokens follow themselves.
fn rounds(ids: &[u32]) -> usize {
    let of_length = |n: usize| {
        // Where a token is that of n before for n · r places, n tokens were said r + 1 times.
        let (mut same, mut most) = (0, 0);
        for (earlier, later) in ids.iter().zip(&ids[n..]) {
            same = if earlier == later { same + 1 } else { 0 };
            most = most.max(same);
        }
        most / n + 1
    };
    (1..=LONGEST.min(ids.len())).map(of_length).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_by_hand() {
        assert_eq!(rounds(&[]), 0);
        assert_eq!(rounds(&[5]), 1);
        assert_eq!(rounds(&[1, 2, 3, 1, 2, 4]), 1);
        assert_eq!(rounds(&[7, 7, 7]), 3);
        assert_eq!(rounds(&[9, 1, 2, 1, 2, 1, 2, 1]), 3);
        assert_eq!(rounds(&[1, 2, 3, 4, 5, 6, 7, 8].repeat(4)), 4);
        assert_eq!(rounds(&[1, 2, 3, 4, 5, 6, 7, 8, 9].repeat(4)), 1);
    }

    #[test]
    fn a_loop_of_the_source_is_none_of_the_translation() {
        let four = [1, 2].repeat(4);
        assert_eq!(rounds_of_loop(&[5, 6, 7], &four), Some(4));
        assert_eq!(rounds_of_loop(&[5, 6, 7], &[1, 2].repeat(3)), None);
        assert_eq!(rounds_of_loop(&[8, 8], &four), None);
        assert_eq!(rounds_of_loop(&[8, 8], &[1, 2].repeat(5)), Some(5));
    }
}
