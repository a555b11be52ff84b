//! The unified difference of two texts, found by longest matching blocks: what messages about immutable specs show.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Lines shown around a change.
const CONTEXT: usize = 3;

/// A text of more lines than this ignores lines that are very frequent.
const LONG: usize = 200;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Block {
    left: usize,
    right: usize,
    length: usize,
}

/// A stretch that is equal, or was replaced: from and to in both texts.
#[derive(Clone, Copy, Debug)]
struct Stretch {
    equal: bool,
    left: (usize, usize),
    right: (usize, usize),
}

/// The difference, empty when the texts are equal.
pub fn unified(old: &str, new: &str) -> String {
    let (left, right) = (lines(old), lines(new));
    let mut out = String::new();
    for group in groups(&stretches(&left, &right)) {
        let (Some(first), Some(last)) = (group.first(), group.last()) else {
            continue;
        };
        let _ = writeln!(
            out,
            "@@ -{} +{} @@",
            range(first.left.0, last.left.1),
            range(first.right.0, last.right.1)
        );
        for stretch in &group {
            if stretch.equal {
                write_lines(&mut out, ' ', &left[stretch.left.0..stretch.left.1]);
            } else {
                write_lines(&mut out, '-', &left[stretch.left.0..stretch.left.1]);
                write_lines(&mut out, '+', &right[stretch.right.0..stretch.right.1]);
            }
        }
    }
    out
}

fn lines(text: &str) -> Vec<&str> {
    text.split('\n').collect()
}

fn write_lines(out: &mut String, mark: char, lines: &[&str]) {
    for line in lines {
        out.push(mark);
        out.push_str(line);
        out.push('\n');
    }
}

fn range(start: usize, end: usize) -> String {
    match end - start {
        1 => format!("{}", start + 1),
        0 => format!("{start},0"),
        length => format!("{},{length}", start + 1),
    }
}

struct Matcher<'t> {
    left: &'t [&'t str],
    positions: BTreeMap<&'t str, Vec<usize>>,
}

impl<'t> Matcher<'t> {
    fn new(left: &'t [&'t str], right: &'t [&'t str]) -> Self {
        let mut positions: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        for (index, line) in right.iter().enumerate() {
            positions.entry(line).or_default().push(index);
        }
        if right.len() >= LONG {
            let frequent = right.len() / 100 + 1;
            positions.retain(|_, found| found.len() <= frequent);
        }
        Matcher { left, positions }
    }

    fn longest(
        &self,
        right: &[&str],
        (alo, ahi): (usize, usize),
        (blo, bhi): (usize, usize),
    ) -> Block {
        let mut best = Block {
            left: alo,
            right: blo,
            length: 0,
        };
        let mut ends: BTreeMap<usize, usize> = BTreeMap::new();
        for i in alo..ahi {
            let mut next = BTreeMap::new();
            for &j in self
                .positions
                .get(self.left[i])
                .map_or(&[][..], Vec::as_slice)
            {
                if j < blo {
                    continue;
                }
                if j >= bhi {
                    break;
                }
                let length = j
                    .checked_sub(1)
                    .and_then(|before| ends.get(&before))
                    .copied()
                    .unwrap_or(0)
                    + 1;
                next.insert(j, length);
                if length > best.length {
                    best = Block {
                        left: i + 1 - length,
                        right: j + 1 - length,
                        length,
                    };
                }
            }
            ends = next;
        }
        while best.left > alo
            && best.right > blo
            && self.left[best.left - 1] == right[best.right - 1]
        {
            best = Block {
                left: best.left - 1,
                right: best.right - 1,
                length: best.length + 1,
            };
        }
        while best.left + best.length < ahi
            && best.right + best.length < bhi
            && self.left[best.left + best.length] == right[best.right + best.length]
        {
            best.length += 1;
        }
        best
    }
}

fn blocks(left: &[&str], right: &[&str]) -> Vec<Block> {
    let matcher = Matcher::new(left, right);
    let mut found = Vec::new();
    let mut open = vec![((0, left.len()), (0, right.len()))];
    while let Some((a, b)) = open.pop() {
        let block = matcher.longest(right, a, b);
        if block.length == 0 {
            continue;
        }
        found.push(block);
        open.push(((a.0, block.left), (b.0, block.right)));
        open.push((
            (block.left + block.length, a.1),
            (block.right + block.length, b.1),
        ));
    }
    found.sort_by_key(|block| block.left);
    found
}

fn stretches(left: &[&str], right: &[&str]) -> Vec<Stretch> {
    let mut all: Vec<Stretch> = Vec::new();
    let (mut i, mut j) = (0, 0);
    let end = Block {
        left: left.len(),
        right: right.len(),
        length: 0,
    };
    for block in blocks(left, right).into_iter().chain([end]) {
        if i < block.left || j < block.right {
            all.push(Stretch {
                equal: false,
                left: (i, block.left),
                right: (j, block.right),
            });
        }
        (i, j) = (block.left + block.length, block.right + block.length);
        if block.length > 0 {
            match all.last_mut() {
                Some(last) if last.equal => (last.left.1, last.right.1) = (i, j),
                _ => all.push(Stretch {
                    equal: true,
                    left: (block.left, i),
                    right: (block.right, j),
                }),
            }
        }
    }
    all
}

/// Changes that stand close together are shown together.
fn groups(all: &[Stretch]) -> Vec<Vec<Stretch>> {
    let mut codes = all.to_vec();
    if codes.iter().all(|stretch| stretch.equal) {
        return Vec::new();
    }
    if let Some(first) = codes.first_mut().filter(|stretch| stretch.equal) {
        first.left.0 = first.left.0.max(first.left.1.saturating_sub(CONTEXT));
        first.right.0 = first.right.0.max(first.right.1.saturating_sub(CONTEXT));
    }
    if let Some(last) = codes.last_mut().filter(|stretch| stretch.equal) {
        last.left.1 = last.left.1.min(last.left.0 + CONTEXT);
        last.right.1 = last.right.1.min(last.right.0 + CONTEXT);
    }
    let (mut groups, mut group) = (Vec::new(), Vec::new());
    for mut stretch in codes {
        if stretch.equal && stretch.left.1 - stretch.left.0 > 2 * CONTEXT {
            group.push(Stretch {
                left: (stretch.left.0, stretch.left.0 + CONTEXT),
                right: (stretch.right.0, stretch.right.0 + CONTEXT),
                ..stretch
            });
            groups.push(std::mem::take(&mut group));
            stretch.left.0 = stretch.left.1 - CONTEXT;
            stretch.right.0 = stretch.right.1 - CONTEXT;
        }
        group.push(stretch);
    }
    if !(group.is_empty() || group.len() == 1 && group[0].equal) {
        groups.push(group);
    }
    groups
}

#[cfg(test)]
mod tests {
    use super::unified;

    #[test]
    fn equal_texts_have_no_difference() {
        assert_eq!(unified("a\nb", "a\nb"), "");
    }

    #[test]
    fn a_changed_line_is_shown_with_three_lines_around() {
        let old = "1\n2\n3\n4\n5\n6\n7\n8\n9";
        let new = "1\n2\n3\n4\nx\n6\n7\n8\n9";
        assert_eq!(
            unified(old, new),
            "@@ -2,7 +2,7 @@\n 2\n 3\n 4\n-5\n+x\n 6\n 7\n 8\n"
        );
    }

    #[test]
    fn changes_far_apart_stand_in_groups_of_their_own() {
        let text = |first: &str, last: &str| format!("{first}\n1\n2\n3\n4\n5\n6\n7\n{last}");
        let found = unified(&text("a", "b"), &text("c", "d"));
        assert_eq!(
            found,
            "@@ -1,4 +1,4 @@\n-a\n+c\n 1\n 2\n 3\n@@ -6,4 +6,4 @@\n 5\n 6\n 7\n-b\n+d\n"
        );
    }
}
