//! The product of two matrices that are views of slices: a safe face of the `gemm` crate, with the current number
//! of rayon threads.

use gemm::Parallelism;

/// A matrix that reads a slice, row by row or, transposed, column by column.
#[derive(Debug, Clone, Copy)]
pub struct Matrix<'a> {
    pub(super) numbers: &'a [f32],
    pub(super) rows: usize,
    pub(super) cols: usize,
    pub(super) row_stride: usize,
    pub(super) col_stride: usize,
}

impl<'a> Matrix<'a> {
    /// The matrix [rows, cols] whose rows follow each other in `numbers`.
    pub fn new(numbers: &'a [f32], rows: usize, cols: usize) -> Self {
        assert_eq!(numbers.len(), rows * cols, "a matrix of {rows} by {cols}");
        Matrix { numbers, rows, cols, row_stride: cols, col_stride: 1 }
    }

    /// Rows and columns.
    pub fn dims(self) -> [usize; 2] {
        [self.rows, self.cols]
    }

    /// The transpose, without a copy.
    pub fn t(self) -> Self {
        let Matrix { numbers, rows, cols, row_stride, col_stride } = self;
        Matrix { numbers, rows: cols, cols: rows, row_stride: col_stride, col_stride: row_stride }
    }
}

/// a \[m,k\] · b \[k,n\] as the rows of \[m,n\].
pub fn product(a: Matrix, b: Matrix) -> Vec<f32> {
    let len = a.rows * b.cols;
    if a.cols == 0 {
        return vec![0.0; len];
    }
    let mut out = Vec::with_capacity(len);
    // SAFETY: there is room for `len` numbers, and without `add` none is read before it is written.
    unsafe {
        gemm_into(a, b, out.as_mut_ptr(), false);
        out.set_len(len);
    }
    out
}

/// out \[m,n\] += a \[m,k\] · b \[k,n\].
pub fn add_product(a: Matrix, b: Matrix, out: &mut [f32]) {
    assert_eq!(out.len(), a.rows * b.cols, "the sum of a product of {} by {}", a.rows, b.cols);
    if a.cols > 0 {
        // SAFETY: `out` has exactly the numbers that are read and written.
        unsafe { gemm_into(a, b, out.as_mut_ptr(), true) };
    }
}

/// Writes a·b to `out`, or adds it.
///
/// # Safety
/// `out` must be writable for a.rows · b.cols numbers, and readable with `add`.
unsafe fn gemm_into(a: Matrix, b: Matrix, out: *mut f32, add: bool) {
    assert_eq!(a.cols, b.rows, "inner sizes of a matrix product");
    let (m, k, n) = (a.rows, a.cols, b.cols);
    if m == 0 || n == 0 {
        return;
    }
    let threads = rayon::current_num_threads();
    let parallelism = if threads == 1 { Parallelism::None } else { Parallelism::Rayon(threads) };
    let (col, row) = (1, n as isize);
    // SAFETY: `Matrix` keeps rows and columns inside its slice; `out` is the caller's promise.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out,
            col,
            row,
            add,
            a.numbers.as_ptr(),
            a.col_stride as isize,
            a.row_stride as isize,
            b.numbers.as_ptr(),
            b.col_stride as isize,
            b.row_stride as isize,
            1.0,
            1.0,
            false,
            false,
            false,
            parallelism,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::simd::{forced, level};
    use super::*;

    #[test]
    fn product_by_hand() {
        // [1 2 3; 4 5 6] · [1 0; 2 1; 0 3]
        let (a, b) = ([1., 2., 3., 4., 5., 6.], [1., 0., 2., 1., 0., 3.]);
        let (a, b) = (Matrix::new(&a, 2, 3), Matrix::new(&b, 3, 2));
        assert_eq!(product(a, b), [5., 11., 14., 23.]);
        assert_eq!(product(b.t(), a.t()), [5., 14., 11., 23.]);
        let mut out = vec![1.0; 4];
        add_product(a, b, &mut out);
        assert_eq!(out, [6., 12., 15., 24.]);
    }

    #[test]
    fn empty_sides() {
        assert_eq!(product(Matrix::new(&[], 2, 0), Matrix::new(&[], 0, 3)), [0.0; 6]);
        assert_eq!(product(Matrix::new(&[], 0, 2), Matrix::new(&[1., 2.], 2, 1)), [0.0; 0]);
        let mut out = vec![1.0; 2];
        add_product(Matrix::new(&[], 2, 0), Matrix::new(&[], 0, 1), &mut out);
        assert_eq!(out, [1., 1.]);
    }

    /// The `gemm` crate divides rows and columns among threads, never the inner size.
    #[test]
    fn same_bits_at_every_number_of_threads() {
        let numbers: Vec<f32> = (0..300 * 130).map(|i| (i as f32).sin()).collect();
        let work = |threads| {
            forced::run(level(), threads, || {
                let (a, b) = (Matrix::new(&numbers, 300, 130), Matrix::new(&numbers, 130, 300));
                [product(a, b), product(b, a), product(a, a.t()), product(b.t(), b)].concat()
            })
        };
        let one = work(1);
        for threads in [2, 3] {
            assert!(
                work(threads).iter().zip(&one).all(|(a, b)| a.to_bits() == b.to_bits()),
                "{threads} threads"
            );
        }
    }

    #[test]
    #[should_panic(expected = "inner sizes")]
    fn sizes_are_checked() {
        product(Matrix::new(&[1., 2.], 1, 2), Matrix::new(&[1.], 1, 1));
    }
}
