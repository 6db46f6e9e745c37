//! A line chart as SVG.

use crate::render::html::escape;
use std::fmt::Write;

/// One curve: its name in the legend, and points of rising x.
pub struct Curve {
    pub name: &'static str,
    pub points: Vec<(f64, f64)>,
    /// Whether each point is marked, with its value to be read on hovering.
    pub marked: bool,
}

/// Size of the drawing, and of the part with curves.
const WIDTH: f64 = 560.0;
const HEIGHT: f64 = 240.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 10.0;
const TOP: f64 = 8.0;
const BOTTOM: f64 = 24.0;

/// Points of a curve that are drawn at most: more are means of neighbours.
const MOST_POINTS: usize = 400;

/// A figure of `curves` over steps; empty where no curve has a point.
pub fn figure(title: &str, curves: &[Curve]) -> String {
    let curves: Vec<(usize, &Curve)> =
        curves.iter().enumerate().filter(|(_, curve)| !curve.points.is_empty()).collect();
    let points = || curves.iter().flat_map(|(_, curve)| curve.points.iter().copied());
    let Some(first) = points().next() else { return String::new() };
    let range = |value: fn((f64, f64)) -> f64| {
        points().map(value).fold((value(first), value(first)), |(low, high), v| (low.min(v), high.max(v)))
    };
    let (x, y) = (Axis::new(range(|(x, _)| x)), Axis::new(range(|(_, y)| y)));
    let at = |(px, py): (f64, f64)| {
        let across = LEFT + x.share(px) * (WIDTH - LEFT - RIGHT);
        (across, HEIGHT - BOTTOM - y.share(py) * (HEIGHT - TOP - BOTTOM))
    };
    let mut svg = grid(&x, &y, at);
    let mut legend = String::new();
    for (index, curve) in curves {
        let _ = write!(legend, " <span class=\"s{index}\">{}</span>", escape(curve.name));
        let thinned = thin(&curve.points);
        let path: Vec<String> = thinned
            .iter()
            .map(|&point| at(point))
            .map(|(across, down)| format!("{across:.1},{down:.1}"))
            .collect();
        let _ = writeln!(svg, "<polyline class=\"line s{index}\" points=\"{}\"/>", path.join(" "));
        for &(step, value) in curve.points.iter().filter(|_| curve.marked) {
            let (across, down) = at((step, value));
            let _ = writeln!(
                svg,
                "<circle class=\"dot s{index}\" cx=\"{across:.1}\" cy=\"{down:.1}\" r=\"3\"><title>{} {} at step {step}</title></circle>",
                escape(curve.name),
                label(value)
            );
        }
    }
    format!(
        "<figure><figcaption>{title}{legend}</figcaption>\n<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" \
         aria-label=\"{title} by step\">\n{svg}</svg></figure>\n"
    )
}

/// Lines and labels at the ticks.
fn grid(x: &Axis, y: &Axis, at: impl Fn((f64, f64)) -> (f64, f64)) -> String {
    let mut svg = String::new();
    for tick in y.ticks() {
        let (_, down) = at((x.low, tick));
        let _ = writeln!(
            svg,
            "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{}\" y1=\"{down:.1}\" y2=\"{down:.1}\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            down + 4.0,
            label(tick)
        );
    }
    for tick in x.ticks() {
        let (across, _) = at((tick, y.low));
        let _ = writeln!(
            svg,
            "<text x=\"{across:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            HEIGHT - 6.0,
            label(tick)
        );
    }
    svg
}

/// The values that an axis spans, and the distance of its ticks.
struct Axis {
    low: f64,
    high: f64,
    tick: f64,
}

impl Axis {
    /// About five ticks at 1, 2 or 5 times a power of ten.
    fn new((low, high): (f64, f64)) -> Self {
        let span = if high > low { high - low } else { low.abs().max(1.0) };
        let rough = span / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let tick = power * [1.0, 2.0, 5.0, 10.0].into_iter().find(|&m| m * power >= rough).unwrap_or(10.0);
        Axis { low, high: low + span, tick }
    }

    /// Where a value lies, from 0 to 1.
    fn share(&self, value: f64) -> f64 {
        (value - self.low) / (self.high - self.low)
    }

    fn ticks(&self) -> impl Iterator<Item = f64> {
        let (first, last) = ((self.low / self.tick).ceil() as i64, (self.high / self.tick).floor() as i64);
        (first..=last).map(|i| i as f64 * self.tick)
    }
}

/// A number with three digits that count.
fn label(value: f64) -> String {
    let size = value.abs();
    if size >= 1e6 {
        format!("{}M", trimmed(format!("{:.1}", value / 1e6)))
    } else if size >= 1e4 {
        format!("{}k", trimmed(format!("{:.1}", value / 1e3)))
    } else if size == 0.0 || size >= 100.0 {
        format!("{value:.0}")
    } else if size >= 0.01 {
        trimmed(format!("{value:.2}"))
    } else {
        format!("{value:.1e}")
    }
}

/// Without zeros after the point that say nothing.
fn trimmed(number: String) -> String {
    if number.contains('.') { number.trim_end_matches('0').trim_end_matches('.').to_string() } else { number }
}

/// At most [`MOST_POINTS`] points, each the mean of its neighbours.
fn thin(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let group = points.len().div_ceil(MOST_POINTS).max(1);
    let mean = |group: &[(f64, f64)]| {
        let n = group.len() as f64;
        (group.iter().map(|p| p.0).sum::<f64>() / n, group.iter().map(|p| p.1).sum::<f64>() / n)
    };
    points.chunks(group).map(mean).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_round_and_inside() {
        let ticks = |low, high| Axis::new((low, high)).ticks().map(label).collect::<Vec<_>>();
        assert_eq!(ticks(0.0, 400.0), ["0", "100", "200", "300", "400"]);
        assert_eq!(ticks(3.2, 9.4), ["4", "6", "8"]);
        assert_eq!(ticks(0.0, 0.0016), ["0", "5.0e-4", "1.0e-3", "1.5e-3"]);
        assert_eq!(ticks(5.0, 5.0).first().map(String::as_str), Some("5"));
    }

    #[test]
    fn many_points_become_means() {
        let points: Vec<(f64, f64)> = (0..1000).map(|i| (f64::from(i), f64::from(i % 2))).collect();
        let thinned = thin(&points);
        assert_eq!(thinned.len(), 334);
        assert_eq!(thinned[0], (1.0, 1.0 / 3.0));
    }

    #[test]
    fn a_chart_without_points_is_nothing() {
        assert_eq!(figure("loss", &[Curve { name: "train", points: vec![], marked: false }]), "");
        let curve = Curve { name: "a<b", points: vec![(1.0, 2.0)], marked: true };
        let svg = figure("loss", &[curve]);
        assert!(svg.contains("a&lt;b 2 at step 1") && !svg.contains("NaN"), "{svg}");
    }
}
