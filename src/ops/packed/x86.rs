//! [`Words`] in the instructions of x86-64. No closures here: they would not be compiled with the instructions of the function
//! that they stand in, and each intrinsic in them would become a call.

use std::arch::x86_64::*;

use super::words::{Product, Sums, Words, small};

/// u8 by i8 with AVX-512 and VNNI.
#[derive(Clone, Copy)]
struct Vnni512(__m512i);

// SAFETY (all functions of this file): the caller vouches for the processor and the memory behind the pointers.
impl Words for Vnni512 {
    const ROWS: usize = 8;
    const PANELS: usize = 3;
    type Weights = __m512i;
    type Input = __m512i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { Self(_mm512_setzero_si512()) }
    }

    #[inline(always)]
    unsafe fn weights(from: *const u8) -> __m512i {
        unsafe { _mm512_load_si512(from.cast()) }
    }

    #[inline(always)]
    unsafe fn input(from: *const u8) -> __m512i {
        unsafe { _mm512_set1_epi32(from.cast::<i32>().read()) }
    }

    #[inline(always)]
    unsafe fn add(self, x: __m512i, w: __m512i) -> Self {
        unsafe { Self(_mm512_dpbusd_epi32(self.0, x, w)) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        unsafe { _mm512_storeu_si512(to.cast(), self.0) }
    }
}

/// bf16 by bf16 with AVX-512.
#[derive(Clone, Copy)]
struct Bf16512(__m512);

impl Words for Bf16512 {
    const ROWS: usize = 8;
    const PANELS: usize = 3;
    type Weights = __m512i;
    type Input = __m512i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { Self(_mm512_setzero_ps()) }
    }

    #[inline(always)]
    unsafe fn weights(from: *const u8) -> __m512i {
        unsafe { Vnni512::weights(from) }
    }

    #[inline(always)]
    unsafe fn input(from: *const u8) -> __m512i {
        unsafe { Vnni512::input(from) }
    }

    #[inline(always)]
    unsafe fn add(self, x: __m512i, w: __m512i) -> Self {
        let pairs = |bits: __m512i| unsafe { std::mem::transmute::<__m512i, __m512bh>(bits) };
        unsafe { Self(_mm512_dpbf16_ps(self.0, pairs(x), pairs(w))) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        unsafe { _mm512_storeu_ps(to.cast(), self.0) }
    }
}

/// u8 by i8 with AVX-VNNI.
#[derive(Clone, Copy)]
struct Vnni256([__m256i; 2]);

impl Words for Vnni256 {
    const ROWS: usize = 6;
    const PANELS: usize = 1;
    type Weights = [__m256i; 2];
    type Input = __m256i;

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { Self([_mm256_setzero_si256(); 2]) }
    }

    #[inline(always)]
    unsafe fn weights(from: *const u8) -> [__m256i; 2] {
        unsafe { [_mm256_load_si256(from.cast()), _mm256_load_si256(from.add(32).cast())] }
    }

    #[inline(always)]
    unsafe fn input(from: *const u8) -> __m256i {
        unsafe { _mm256_set1_epi32(from.cast::<i32>().read()) }
    }

    #[inline(always)]
    unsafe fn add(self, x: __m256i, w: [__m256i; 2]) -> Self {
        let ([low, high], [w0, w1]) = (self.0, w);
        unsafe { Self([_mm256_dpbusd_avx_epi32(low, x, w0), _mm256_dpbusd_avx_epi32(high, x, w1)]) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        unsafe {
            _mm256_storeu_si256(to.cast(), self.0[0]);
            _mm256_storeu_si256(to.add(8).cast(), self.0[1]);
        }
    }
}

/// u8 by i8 with AVX2. Its own instruction for bytes saturates at 16 bits; here the even and the odd bytes are widened
/// to 16 bits, whose products and their sums in pairs are exact.
#[derive(Clone, Copy)]
struct Bytes256([__m256i; 2]);

impl Words for Bytes256 {
    const ROWS: usize = 4;
    const PANELS: usize = 1;
    type Weights = [[__m256i; 2]; 2];
    type Input = [__m256i; 2];

    #[inline(always)]
    unsafe fn zero() -> Self {
        unsafe { Self([_mm256_setzero_si256(); 2]) }
    }

    #[inline(always)]
    unsafe fn weights(from: *const u8) -> [[__m256i; 2]; 2] {
        unsafe {
            let (low, high) = (_mm256_load_si256(from.cast()), _mm256_load_si256(from.add(32).cast()));
            [
                [_mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(low)), _mm256_srai_epi16::<8>(low)],
                [_mm256_srai_epi16::<8>(_mm256_slli_epi16::<8>(high)), _mm256_srai_epi16::<8>(high)],
            ]
        }
    }

    #[inline(always)]
    unsafe fn input(from: *const u8) -> [__m256i; 2] {
        unsafe {
            let x = _mm256_set1_epi32(from.cast::<i32>().read());
            [_mm256_and_si256(x, _mm256_set1_epi16(0xff)), _mm256_srli_epi16::<8>(x)]
        }
    }

    #[inline(always)]
    unsafe fn add(self, x: [__m256i; 2], w: [[__m256i; 2]; 2]) -> Self {
        unsafe {
            let ([even, odd], [low, high]) = (x, w);
            let low = _mm256_add_epi32(_mm256_madd_epi16(even, low[0]), _mm256_madd_epi16(odd, low[1]));
            let high = _mm256_add_epi32(_mm256_madd_epi16(even, high[0]), _mm256_madd_epi16(odd, high[1]));
            Self([_mm256_add_epi32(self.0[0], low), _mm256_add_epi32(self.0[1], high)])
        }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut u32) {
        unsafe { Vnni256(self.0).store(to) }
    }
}

macro_rules! kernel {
    ($name:ident, $words:ty, $features:literal) => {
        #[target_feature(enable = $features)]
        pub unsafe fn $name(shape: (usize, usize), product: Product, sums: &mut Sums) {
            // SAFETY: the caller's promise.
            unsafe { small::<$words>(shape, product, sums) }
        }
    };
}

kernel!(bytes_avx512, Vnni512, "avx512f,avx512bw,avx512vl,avx512vnni");
kernel!(bf16_avx512, Bf16512, "avx512f,avx512bw,avx512bf16");
kernel!(bytes_avx_vnni, Vnni256, "avx2,avxvnni");
kernel!(bytes_avx2, Bytes256, "avx2");
