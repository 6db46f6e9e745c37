//! The flags that say what computes.

use clap::Args;
use std::fmt;
use std::str::FromStr;

#[derive(Debug, Args)]
pub struct Machine {
    /// Threads to compute with [default: one for each core].
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub threads: Option<u16>,
    /// Where to compute: `cpu`, `cuda`, `cuda:N` or `metal`.
    #[arg(long, value_name = "DEVICE", default_value = "cpu")]
    pub device: DeviceArg,
}

/// A device, by its number where there may be several.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceArg {
    Cpu,
    Cuda(usize),
    Metal(usize),
}

impl FromStr for DeviceArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (kind, number) = text.split_once(':').unwrap_or((text, "0"));
        match (kind, number.parse()) {
            ("cpu", Ok(0)) => Ok(DeviceArg::Cpu),
            ("cuda", Ok(number)) => Ok(DeviceArg::Cuda(number)),
            ("metal", Ok(number)) => Ok(DeviceArg::Metal(number)),
            _ => Err("expected cpu, cuda, cuda:N or metal".to_string()),
        }
    }
}

impl fmt::Display for DeviceArg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceArg::Cpu => write!(f, "cpu"),
            DeviceArg::Cuda(number) => write!(f, "cuda:{number}"),
            DeviceArg::Metal(number) => write!(f, "metal:{number}"),
        }
    }
}
