//! A beam search as a graph in the language of Graphviz: the tree of hypotheses from left to right.

use super::{View, fate};
use std::io::{self, Write};
use tx::search::trace::Fate;

/// Writes the graph: `h0` is the empty hypothesis, `hN` the one with id N, `pS_R` what fell off at step S with rank R. The path of the
/// best hypothesis is bold.
pub fn write(out: &mut impl Write, view: &View) -> io::Result<()> {
    let best = best_path(view);
    writeln!(out, "digraph beam {{")?;
    writeln!(out, "  rankdir=LR;")?;
    writeln!(out, "  node [shape=box, style=rounded, fontname=\"sans-serif\"];")?;
    writeln!(out, "  h0 [label={}];", quoted(view.text))?;
    for step in &view.trace.steps {
        writeln!(out, "  // step {}", step.step)?;
        for one in &step.candidates {
            let name = match one.id {
                Some(id) => format!("h{id}"),
                None => format!("p{}_{}", step.step, one.rank),
            };
            let piece = view.translator.tgt_tokenizer().piece(one.token);
            let label =
                format!("{piece}\nlog_prob {:.4}\nscore {:.4}\n{}", one.log_prob, one.score, fate(one));
            let look = match one.fate {
                Fate::Live => "",
                Fate::Finished => ", peripheries=2, color=\"#1b7a43\"",
                Fate::Cut => ", color=\"#b34700\"",
                Fate::Pruned => ", style=\"rounded,dashed\", color=gray, fontcolor=gray",
            };
            writeln!(out, "  {name} [label={}{look}];", quoted(&label))?;
            let edge = match one.id {
                Some(id) if best.contains(&id) => " [penwidth=3]",
                Some(_) => "",
                None => " [style=dashed, color=gray]",
            };
            writeln!(out, "  h{} -> {name}{edge};", one.parent)?;
        }
    }
    writeln!(out, "}}")
}

/// The ids on the way to the best hypothesis.
fn best_path(view: &View) -> Vec<u32> {
    let mut path: Vec<u32> = view.trace.hypotheses.iter().map(|best| best.id).take(1).collect();
    for step in view.trace.steps.iter().rev() {
        let own = step.candidates.iter().find(|one| one.id.is_some() && one.id == path.last().copied());
        path.extend(own.map(|one| one.parent));
    }
    path
}

/// A string as Graphviz reads it: quotes and backslashes escaped, `\n` for a new line.
fn quoted(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n"))
}

#[cfg(test)]
mod tests {
    use super::quoted;

    #[test]
    fn strings_of_graphviz_by_hand() {
        assert_eq!(quoted("a\"\\\nb"), r#""a\"\\\nb""#);
    }
}
