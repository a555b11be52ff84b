//! The nodes and what they carry, as an SVG picture.

use std::fmt::Write as _;

use crate::finding::{Finding, Rule};
use crate::model::{Critical, Model};
use crate::placement::{name_of, node_of};

const WIDTH: usize = 300;
const LINE: usize = 18;
const GAP: usize = 16;
/// Boxes in one row.
const COLUMNS: usize = 4;

/// A box for each node with the critical pods on it; red where a failure keeps its own fix from being
/// delivered.
pub fn picture(model: &Model, findings: &[Finding]) -> String {
    let critical = model.critical();
    let mut nodes: Vec<&str> = model.of_kind("Node").map(name_of).collect();
    let used = critical.iter().flat_map(|workload| &workload.pods);
    nodes.extend(used.filter_map(|pod| node_of(pod)));
    nodes.sort_unstable();
    nodes.dedup();
    let boxes: Vec<(&str, Vec<String>)> = nodes
        .into_iter()
        .map(|node| (node, lines(node, &critical)))
        .collect();
    let rows: Vec<&[(&str, Vec<String>)]> = boxes.chunks(COLUMNS).collect();
    let height_of = |row: &[(&str, Vec<String>)]| {
        let most = row.iter().map(|(_, lines)| lines.len()).max().unwrap_or(0);
        (most + 2) * LINE
    };
    let height: usize = rows.iter().map(|row| height_of(row) + GAP).sum::<usize>() + GAP;
    let width = COLUMNS.min(boxes.len().max(1)) * (WIDTH + GAP) + GAP;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{height}\" \
         font-family=\"sans-serif\" font-size=\"13\">\n"
    );
    let mut top = GAP;
    for row in rows {
        let height = height_of(row);
        for (column, (node, lines)) in row.iter().enumerate() {
            let left = GAP + column * (WIDTH + GAP);
            draw(
                &mut svg,
                (left, top, height),
                node,
                lines,
                colour(node, findings),
            );
        }
        top += height + GAP;
    }
    svg.push_str("</svg>\n");
    svg
}

/// What is on a node, what it carries alone marked so.
fn lines(node: &str, critical: &[Critical<'_>]) -> Vec<String> {
    let mut lines = Vec::new();
    for workload in critical {
        let here = workload
            .pods
            .iter()
            .filter(|pod| node_of(pod) == Some(node))
            .count();
        if here == 0 {
            continue;
        }
        let alone = match here == workload.pods.len() && !workload.is_daemon_set() {
            true => ", alone",
            false => "",
        };
        lines.push(format!(
            "{} ({}{alone})",
            workload.shown(),
            workload.role.carries
        ));
    }
    lines
}

fn colour(node: &str, findings: &[Finding]) -> &'static str {
    let worst = findings
        .iter()
        .filter(|finding| {
            matches!(finding.rule, Rule::SharedNode)
                && finding.subjects.first().is_some_and(|place| place == node)
        })
        .map(|finding| finding.severity)
        .min();
    match worst {
        Some(crate::Severity::Error) => "#f8d0d0",
        Some(_) => "#f8ecc8",
        None => "#e8f0e8",
    }
}

fn draw(
    svg: &mut String,
    (left, top, height): (usize, usize, usize),
    node: &str,
    lines: &[String],
    colour: &str,
) {
    // Writing to a String cannot fail.
    let _ = writeln!(
        svg,
        "<rect x=\"{left}\" y=\"{top}\" width=\"{WIDTH}\" height=\"{height}\" rx=\"6\" fill=\"{colour}\" stroke=\"#888\"/>"
    );
    let x = left + 10;
    let _ = writeln!(
        svg,
        "<text x=\"{x}\" y=\"{}\" font-weight=\"bold\">{}</text>",
        top + LINE,
        escaped(node)
    );
    for (number, line) in lines.iter().enumerate() {
        let y = top + (number + 2) * LINE;
        let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\">{}</text>", escaped(line));
    }
}

fn escaped(text: &str) -> String {
    let text: String = text.chars().take(120).filter(|c| !c.is_control()).collect();
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}
