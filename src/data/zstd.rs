//! Zstandard files as a stream of bytes (RFC 8878): all frames, skippable ones left out, checksums compared.
//! The decoder of the crate `ruzstd` handles one frame; files of parallel compressors have many.

use ruzstd::decoding::errors::{FrameDecoderError, ReadFrameHeaderError};
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};
use std::io::{self, BufRead, Read};

/// Decompresses the frames of `source` one after another.
pub(super) struct ZstdFrames<R> {
    source: R,
    decoder: FrameDecoder,
}

impl<R: BufRead> ZstdFrames<R> {
    pub(super) fn new(source: R) -> Self {
        ZstdFrames { source, decoder: FrameDecoder::new() }
    }

    /// Reads the header of the next frame, over skippable ones; false at the end of the source.
    fn next_frame(&mut self) -> io::Result<bool> {
        if self
            .decoder
            .get_checksum_from_data()
            .is_some_and(|sum| self.decoder.get_calculated_checksum() != Some(sum))
        {
            return Err(io::Error::other("damaged Zstandard data: its checksum differs"));
        }
        while !self.source.fill_buf()?.is_empty() {
            match self.decoder.init(&mut self.source) {
                Ok(()) => return Ok(true),
                Err(FrameDecoderError::ReadFrameHeaderError(ReadFrameHeaderError::SkipFrame {
                    length,
                    ..
                })) => {
                    io::copy(&mut self.source.by_ref().take(length.into()), &mut io::sink())?;
                }
                Err(e) => return Err(io::Error::other(e)),
            }
        }
        Ok(false)
    }
}

impl<R: BufRead> Read for ZstdFrames<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        while self.decoder.can_collect() == 0 {
            if !self.decoder.is_finished() {
                let one = BlockDecodingStrategy::UptoBlocks(1);
                self.decoder.decode_blocks(&mut self.source, one).map_err(io::Error::other)?;
            } else if !self.next_frame()? {
                return Ok(0);
            }
        }
        self.decoder.read(buf)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `printf 'one\n' | zstd` of the reference program: a frame with a checksum.
    const FRAME: [u8; 17] =
        [0x28, 0xB5, 0x2F, 0xFD, 0x04, 0x58, 0x21, 0, 0, b'o', b'n', b'e', b'\n', 0xDF, 0x16, 0x68, 0x09];

    fn read(bytes: &[u8]) -> io::Result<String> {
        let mut text = String::new();
        ZstdFrames::new(bytes).read_to_string(&mut text).map(|_| text)
    }

    #[test]
    fn frames_of_the_reference_program() {
        assert_eq!(read(&FRAME).unwrap(), "one\n");
        assert_eq!(read(&[FRAME, FRAME].concat()).unwrap(), "one\none\n");
    }

    #[test]
    fn damage_is_an_error() {
        let mut wrong = FRAME;
        wrong[16] ^= 1;
        assert!(read(&wrong).unwrap_err().to_string().contains("checksum"));
        assert!(read(&FRAME[..12]).is_err());
        assert!(read(&[&FRAME[..], b"rest"].concat()).is_err());
    }
}
