//! FFN(x) = max(0, x W1 + b1) W2 + b2 (section 3.3), the same for every row.

use super::layers::Layers;
use super::linear::Linear;
use super::pass::Pass;
use super::walk::Quantity;
use crate::config::Activation;
use crate::error::Result;
use candle_core::Tensor;

/// One feed-forward sublayer.
#[derive(Debug)]
pub struct FeedForward {
    name: String,
    fc1: Linear,
    fc2: Linear,
    activation: Activation,
    dropout: f32,
}

impl FeedForward {
    /// The sublayer of the layer stored under `name`.
    pub(super) fn new(layers: &Layers, name: &str) -> Result<Self> {
        Ok(FeedForward {
            name: name.to_string(),
            fc1: layers.linear(&[&format!("{name}.fc1")])?,
            fc2: layers.linear(&[&format!("{name}.fc2")])?,
            activation: layers.config.activation,
            dropout: layers.config.dropout.activation,
        })
    }

    /// x [n, d] → [n, d]
    pub fn forward(&self, x: &Tensor, pass: &mut Pass) -> Result<Tensor> {
        let hidden = self.fc1.forward_activated(x, self.activation)?;
        pass.note(&self.name, Quantity::Hidden, || Ok(hidden.clone()))?;
        let hidden = pass.dropout(hidden, self.dropout)?;
        let out = self.fc2.forward(&hidden)?;
        pass.note(&self.name, Quantity::FeedForward, || Ok(out.clone()))?;
        Ok(out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{Config, Preset};
    use crate::model::linear::Kind;
    use crate::model::parameters::Weights;
    use candle_core::Device;

    /// W1 = ((1, -1), (0, 1)) and W2 = ((2, 0), (0, 5)) as [out, in], b1 = (0, -3), b2 = (1, 1).
    /// x = (1, 2): hidden (-1, -1) → (0, 0), so y = b2. x = (6, 4): hidden (2, 1), so y = (5, 6).
    #[test]
    fn feed_forward_by_hand() {
        let config = Config { d_model: 2, ..Config::new(Preset::Tiny, 4) };
        let tensor = |rows: [[f32; 2]; 2]| Tensor::new(&rows, &Device::Cpu).unwrap();
        let bias = |row: [f32; 2]| Tensor::new(&row, &Device::Cpu).unwrap();
        let weights = Weights::from([
            ("l.fc1.weight".into(), tensor([[1., -1.], [0., 1.]])),
            ("l.fc1.bias".into(), bias([0., -3.])),
            ("l.fc2.weight".into(), tensor([[2., 0.], [0., 5.]])),
            ("l.fc2.bias".into(), bias([1., 1.])),
        ]);
        let layers = Layers::new(&config, weights, Kind::Plain);
        let feed_forward = FeedForward::new(&layers, "l").unwrap();
        let y = feed_forward.forward(&tensor([[1., 2.], [6., 4.]]), &mut Pass::inference()).unwrap();
        assert_eq!(y.to_vec2::<f32>().unwrap(), [[1., 1.], [5., 6.]]);
    }
}
