//! What the fused operations share on the CPU: when they apply, the numbers behind a tensor, and work in fixed
//! chunks on rayon's threads.
//!
//! Chunks have a fixed size and partial sums are added in the order of the chunks, so no result depends on the
//! number of threads.

use candle_core::{CpuStorage, DType, Layout, Result, Storage, StorageRef, Tensor, bail};
use rayon::prelude::*;
use std::ops::{Deref, Range};

/// Elements in one piece of element-wise work (64 KiB, which stays in the cache of a core). Even, so that a chunk
/// starts at the first of a pair of dropout decisions.
pub const CHUNK: usize = 1 << 14;

/// Rows in one piece of a sum over rows.
pub const ROWS: usize = 64;

/// Work on fewer elements than this stays on the calling thread: waking the others takes longer.
const PARALLEL: usize = 1 << 14;

/// Whether the fused form of an operation applies: all `tensors` are f32, contiguous and on the CPU.
pub fn fused(tensors: &[&Tensor]) -> bool {
    tensors.iter().all(|t| t.device().is_cpu() && t.dtype() == DType::F32 && t.is_contiguous())
}

/// The numbers of a contiguous f32 argument of a custom operation.
pub fn numbers<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<&'a [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(numbers), Some((start, end))) => Ok(&numbers[start..end]),
        _ => bail!(
            "a fused operation takes contiguous f32 tensors, found {:?} {layout:?}",
            storage_dtype(storage)
        ),
    }
}

/// The numbers of a contiguous f32 argument that is changed in place.
pub fn numbers_mut<'a>(storage: &'a mut CpuStorage, layout: &Layout) -> Result<&'a mut [f32]> {
    match (storage, layout.contiguous_offsets()) {
        (CpuStorage::F32(numbers), Some((start, end))) => Ok(&mut numbers[start..end]),
        (storage, _) => {
            bail!(
                "a fused operation takes contiguous f32 tensors, found {:?} {layout:?}",
                storage_dtype(storage)
            )
        }
    }
}

fn storage_dtype(storage: &CpuStorage) -> DType {
    use candle_core::backend::BackendStorage;
    storage.dtype()
}

/// Read access to the numbers of a contiguous f32 tensor on the CPU.
pub struct Numbers<'a> {
    storage: StorageRef<'a>,
    range: Range<usize>,
}

impl<'a> Numbers<'a> {
    /// Holds the tensor's lock for reading as long as the value lives.
    pub fn of(tensor: &'a Tensor) -> Result<Self> {
        let (storage, layout) = tensor.storage_and_layout();
        match (&*storage, layout.contiguous_offsets()) {
            (Storage::Cpu(CpuStorage::F32(_)), Some((start, end))) => {
                Ok(Numbers { storage, range: start..end })
            }
            _ => bail!("a fused operation takes contiguous f32 tensors on the CPU, found {layout:?}"),
        }
    }
}

impl Deref for Numbers<'_> {
    type Target = [f32];

    fn deref(&self) -> &[f32] {
        match &*self.storage {
            Storage::Cpu(CpuStorage::F32(numbers)) => &numbers[self.range.clone()],
            // `of` lets nothing else in.
            _ => &[],
        }
    }
}

/// A new vector of `len` numbers, made in pieces of `chunk` by `work(index of the first, piece)`, which finds
/// zeros; with what `work` returned for each piece, in order.
pub fn build<R: Send>(
    len: usize,
    chunk: usize,
    work: impl Fn(usize, &mut [f32]) -> R + Sync,
) -> (Vec<f32>, Vec<R>) {
    let chunk = chunk.max(1);
    let mut out: Vec<f32> = Vec::with_capacity(len);
    let piece = |(index, piece): (usize, &mut [std::mem::MaybeUninit<f32>])| {
        // Zeros are written piece by piece while the piece is in the cache, not in a pass over all memory.
        for number in piece.iter_mut() {
            number.write(0.0);
        }
        // SAFETY: every number of the piece was written just now.
        work(index * chunk, unsafe { piece.assume_init_mut() })
    };
    let spare = &mut out.spare_capacity_mut()[..len];
    let results = if alone(len) {
        spare.chunks_mut(chunk).enumerate().map(piece).collect()
    } else {
        spare.par_chunks_mut(chunk).enumerate().map(piece).collect()
    };
    // SAFETY: the pieces cover the first `len` numbers, and each was written.
    unsafe { out.set_len(len) };
    (out, results)
}

/// `work` on each of the chunks 0..count, which read `len` numbers together; the results in order.
pub fn map<R: Send>(count: usize, len: usize, work: impl Fn(usize) -> R + Sync + Send) -> Vec<R> {
    if alone(len) { (0..count).map(work).collect() } else { (0..count).into_par_iter().map(work).collect() }
}

/// `work(index of the first, piece)` on each piece of `chunk` numbers of `out`; the results in order.
pub fn map_mut<R: Send>(
    out: &mut [f32],
    chunk: usize,
    work: impl Fn(usize, &mut [f32]) -> R + Sync + Send,
) -> Vec<R> {
    let chunk = chunk.max(1);
    let piece = |(index, piece): (usize, _)| work(index * chunk, piece);
    if alone(out.len()) {
        out.chunks_mut(chunk).enumerate().map(piece).collect()
    } else {
        out.par_chunks_mut(chunk).enumerate().map(piece).collect()
    }
}

/// Whether work on `len` numbers stays on the calling thread.
fn alone(len: usize) -> bool {
    len < PARALLEL || rayon::current_num_threads() == 1
}

/// How many rows of `width` numbers make a piece of about [`CHUNK`].
pub fn rows_per_chunk(width: usize) -> usize {
    (CHUNK / width.max(1)).max(1)
}

/// The sum of the `partial` vectors of `width` numbers, in order.
pub fn sum_in_order(partial: &[Vec<f32>], width: usize) -> Vec<f32> {
    let mut total = vec![0.0; width];
    for partial in partial {
        for (total, &part) in total.iter_mut().zip(partial) {
            *total += part;
        }
    }
    total
}

/// The f32 storage of the result of a custom operation.
pub fn result(numbers: Vec<f32>, layout: &Layout) -> (CpuStorage, candle_core::Shape) {
    (CpuStorage::F32(numbers), layout.shape().clone())
}

#[cfg(test)]
mod tests {
    use super::*;
    use candle_core::Device;

    #[test]
    fn build_covers_every_number_once() {
        for len in [0, 1, 7, 30_000] {
            let (out, pieces) = build(len, 7, |start, piece| {
                piece.iter_mut().enumerate().for_each(|(i, x)| *x += (start + i) as f32);
                (start, piece.len())
            });
            assert_eq!(out, (0..len).map(|i| i as f32).collect::<Vec<_>>());
            assert_eq!(pieces.len(), len.div_ceil(7));
            assert!(
                pieces.iter().enumerate().all(|(i, &(start, n))| start == 7 * i && n == 7.min(len - start))
            );
        }
    }

    #[test]
    fn for_each_and_map_see_every_piece() {
        let mut out = vec![1.0; 20_001];
        map_mut(&mut out, 10, |start, piece| piece.iter_mut().for_each(|x| *x += start as f32));
        assert!(out.iter().enumerate().all(|(i, &x)| x == (i / 10 * 10 + 1) as f32));
        assert_eq!(map(5, 1 << 20, |i| i * i), [0, 1, 4, 9, 16]);
    }

    #[test]
    fn numbers_are_those_of_the_view() -> Result<()> {
        let x = Tensor::arange(0f32, 12., &Device::Cpu)?.reshape((4, 3))?;
        assert_eq!(*Numbers::of(&x.narrow(0, 1, 2)?)?, [3., 4., 5., 6., 7., 8.]);
        assert!(Numbers::of(&x.t()?).is_err());
        assert!(Numbers::of(&x.to_dtype(DType::F64)?).is_err());
        assert!(fused(&[&x]) && !fused(&[&x, &x.t()?]));
        Ok(())
    }
}
