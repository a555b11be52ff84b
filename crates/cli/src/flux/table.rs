//! Tables as flux prints them: cells padded to their column, with a tab between them.

/// Rows under an optional header; a cell may have more than one line.
pub fn render(header: Option<&[&str]>, rows: &[Vec<String>]) -> String {
    let columns = header.map_or_else(|| rows.first().map_or(0, Vec::len), <[&str]>::len);
    let mut widths = vec![0; columns];
    for (width, name) in widths.iter_mut().zip(header.into_iter().flatten()) {
        *width = name.chars().count();
    }
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            let widest = cell.split('\n').map(|line| line.chars().count()).max();
            *width = (*width).max(widest.unwrap_or(0));
        }
    }
    let mut out = String::new();
    if let Some(header) = header {
        let cells: Vec<String> = header
            .iter()
            .zip(&widths)
            .map(|(name, width)| format!("{name:<width$}"))
            .collect();
        out.push_str(&cells.join("\t"));
        out.push_str(" \n");
    }
    for row in rows {
        let lines = row.iter().map(|cell| cell.split('\n').count()).max();
        for line in 0..lines.unwrap_or(0) {
            for (cell, width) in row.iter().zip(&widths) {
                let text = cell.split('\n').nth(line).unwrap_or_default();
                out.push_str(&format!("{text:<width$}\t"));
            }
            out.push('\n');
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_padded_and_lines_kept() {
        let rows = vec![
            vec!["a".to_owned(), "one\ntwo".to_owned()],
            vec!["long".to_owned(), "x".to_owned()],
        ];
        assert_eq!(
            render(Some(&["NAME", "MESSAGE"]), &rows),
            "NAME\tMESSAGE \na   \tone    \t\n    \ttwo    \t\nlong\tx      \t\n"
        );
        assert_eq!(render(None, &rows[1..]), "long\tx\t\n");
    }
}
