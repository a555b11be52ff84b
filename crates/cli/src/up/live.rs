//! A picture that fits on a terminal.

use everflow_local::picture::{Node, Picture, State};

use super::lines::{self, Paint};

/// The whole tree where it fits into so many lines; else each part in a line of counts, and below it
/// what is not at rest or not as it should be, as much as there is room for.
pub fn fitted(picture: &Picture, paint: Paint, height: usize) -> Vec<String> {
    let whole = lines::tree(picture, paint);
    if whole.len() <= height {
        return whole;
    }
    let parts = [
        ("Sources", &picture.sources),
        ("Kustomizations", &picture.kustomizations),
        ("HelmReleases", &picture.releases),
        ("Others", &picture.others),
    ];
    let parts: Vec<_> = parts
        .into_iter()
        .filter(|(_, nodes)| !nodes.is_empty())
        .collect();
    let mut room = height.saturating_sub(parts.len());
    let mut drawn = Vec::new();
    for (title, nodes) in parts {
        drawn.push(format!("{title}  {}", counts(nodes, paint)));
        let mut news: Vec<&Node> = nodes.iter().filter(|node| is_news(node)).collect();
        news.sort_by_key(|node| (urgency(node.state), &node.id));
        let shown = match news.len() <= room {
            true => news.len(),
            false => room.saturating_sub(1),
        };
        for node in &news[..shown] {
            drawn.push(format!(
                "  {}{}",
                lines::line(node, paint),
                lines::counted(node)
            ));
        }
        room -= shown;
        if shown < news.len() && room > 0 {
            drawn.push(format!("  and {} more", news.len() - shown));
            room -= 1;
        }
    }
    drawn
}

fn is_news(node: &Node) -> bool {
    matches!(node.state, State::Failed | State::Blocked) || node.state.is_moving()
}

/// What somebody who looks wants to see first.
fn urgency(state: State) -> usize {
    match state {
        State::Failed => 0,
        State::Progressing => 1,
        State::Blocked => 2,
        _ => 3,
    }
}

fn counts(nodes: &[Node], paint: Paint) -> String {
    let states = [
        State::Ready,
        State::Progressing,
        State::Waiting,
        State::Blocked,
        State::Failed,
        State::Skipped,
        State::Unsupported,
        State::Suspended,
    ];
    let counts = states.into_iter().filter_map(|state| {
        let count = nodes.iter().filter(|node| node.state == state).count();
        (count > 0).then(|| paint.wrap(state, &format!("{count} {}", state.word())))
    });
    counts.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use everflow_api::inventory::ObjectId;

    use super::*;

    fn node(name: &str, state: State) -> Node {
        Node {
            id: ObjectId {
                namespace: "n".into(),
                name: name.into(),
                group: "kustomize.toolkit.fluxcd.io".into(),
                kind: "Kustomization".into(),
            },
            state,
            reason: String::new(),
            message: "why".into(),
            revision: String::new(),
            waits_for: Vec::new(),
            children: Vec::new(),
        }
    }

    fn picture() -> Picture {
        let mut kustomizations: Vec<Node> = (0..30)
            .map(|number| node(&format!("ready-{number}"), State::Ready))
            .collect();
        kustomizations
            .extend((0..5).map(|number| node(&format!("on-{number}"), State::Progressing)));
        kustomizations.push(node("broken", State::Failed));
        Picture {
            kustomizations,
            others: vec![node("release", State::Unsupported)],
            ..Picture::default()
        }
    }

    #[test]
    fn picture_that_fits_is_drawn_completely() {
        let drawn = fitted(&picture(), Paint::Plain, 100);
        assert_eq!(drawn.len(), 36 + 1 + 2);
        assert!(drawn.contains(&"  ✔ Kustomization/n/ready-7  ready".to_owned()));
    }

    #[test]
    fn picture_that_does_not_fit_lists_failures_first_and_counts_the_rest() {
        assert_eq!(
            fitted(&picture(), Paint::Plain, 6),
            [
                "Kustomizations  30 ready, 5 progressing, 1 failed",
                "  ✗ Kustomization/n/broken  failed: why",
                "  ◎ Kustomization/n/on-0  progressing: why",
                "  ◎ Kustomization/n/on-1  progressing: why",
                "  and 3 more",
                "Others  1 not supported yet",
            ]
        );
        for height in 0..40 {
            let drawn = fitted(&picture(), Paint::Plain, height);
            assert!(drawn.len() <= height.max(2), "{height}: {drawn:?}");
        }
    }
}
