//! The rows of a matrix tensor, read where they lie: also where they are part of wider rows, such as the queries in
//! the result of a joint projection to queries, keys and values.

use candle_core::{CpuStorage, DType, Layout, Result, Storage, StorageRef, Tensor, bail};

use super::kernel::Matrix;

/// `x` [n, d] itself if the numbers of a row are neighbours, else a copy for which this is so.
pub(super) fn in_rows(x: &Tensor) -> Result<Tensor> {
    if neighbours(x.layout()) { Ok(x.clone()) } else { x.contiguous() }
}

/// The rows of an f32 argument of a custom operation.
pub(super) fn rows<'a>(storage: &'a CpuStorage, layout: &Layout) -> Result<Matrix<'a>> {
    let (_, _) = layout.shape().dims2()?;
    match storage {
        CpuStorage::F32(data) if neighbours(layout) => {
            // A part of the columns of no rows begins after the end.
            Ok(Matrix::rows(&data[layout.start_offset().min(data.len())..], layout.stride()[0]))
        }
        _ => bail!("expected an f32 matrix with contiguous rows, found {layout:?}"),
    }
}

/// Whether the numbers of a row are neighbours in memory.
fn neighbours(layout: &Layout) -> bool {
    matches!((layout.dims(), layout.stride()), ([_, d], [_, stride]) if *stride == 1 || *d == 1)
}

/// Read access to the rows of a tensor; holds its lock as long as the value lives.
pub(super) struct Rows<'a> {
    storage: StorageRef<'a>,
    layout: &'a Layout,
}

impl<'a> Rows<'a> {
    /// The rows of `x` [n, d], which is f32, on the CPU and as [`in_rows`] gives it.
    pub fn of(x: &'a Tensor) -> Result<Self> {
        let (storage, layout) = x.storage_and_layout();
        if x.dtype() != DType::F32 || !x.device().is_cpu() || !neighbours(layout) {
            let (device, dtype) = (x.device().location(), x.dtype());
            bail!(
                "expected an f32 matrix with contiguous rows on the CPU, found {dtype:?} {layout:?} on {device:?}"
            );
        }
        Ok(Self { storage, layout })
    }

    /// The rows as the kernels read them.
    pub fn matrix(&self) -> Result<Matrix<'_>> {
        match &*self.storage {
            Storage::Cpu(storage) => rows(storage, self.layout),
            _ => bail!("expected a tensor on the CPU"),
        }
    }
}
