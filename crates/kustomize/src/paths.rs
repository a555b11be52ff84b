//! Slash-separated paths by the rules of Go's `path/filepath` on Unix.

/// Shortens a path to its plainest form: no empty, `.` or inner `..` parts; `.` when nothing is left.
pub fn clean(path: &str) -> String {
    let rooted = path.starts_with('/');
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => match parts.last() {
                Some(&last) if last != ".." => {
                    parts.pop();
                }
                _ if rooted => {}
                _ => parts.push(".."),
            },
            part => parts.push(part),
        }
    }
    let joined = parts.join("/");
    match (rooted, joined.is_empty()) {
        (true, _) => format!("/{joined}"),
        (false, true) => ".".to_owned(),
        (false, false) => joined,
    }
}

/// Joins two paths and cleans the result; empty parts are left out.
pub fn join(base: &str, path: &str) -> String {
    match (base.is_empty(), path.is_empty()) {
        (true, true) => String::new(),
        (true, false) => clean(path),
        (false, true) => clean(base),
        (false, false) => clean(&format!("{base}/{path}")),
    }
}

/// The directory part of a clean absolute path.
pub fn parent(path: &str) -> &str {
    match path.rfind('/') {
        Some(0) | None => "/",
        Some(index) => &path[..index],
    }
}

/// The last part of a path, as Go's `path.Base` has it.
pub fn base(path: &str) -> &str {
    if path.is_empty() {
        return ".";
    }
    let trimmed = path.trim_end_matches('/');
    if trimmed.is_empty() {
        return "/";
    }
    trimmed.rsplit('/').next().unwrap_or(trimmed)
}

/// True when `path` is `directory` or lies below it; both are clean and absolute.
pub fn is_within(path: &str, directory: &str) -> bool {
    directory == "/"
        || path == directory
        || path
            .strip_prefix(directory)
            .is_some_and(|rest| rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clean_and_join_follow_go() {
        assert_eq!(clean("/a/./b/../c/"), "/a/c");
        assert_eq!(clean("/../a"), "/a");
        assert_eq!(clean("../a/../../b"), "../../b");
        assert_eq!(clean(""), ".");
        assert_eq!(join("/app/overlay", "../base"), "/app/base");
        assert_eq!(join("", "base"), "base");
        assert_eq!(base("./path/file.txt"), "file.txt");
        assert_eq!(base("/"), "/");
    }

    #[test]
    fn a_sibling_with_the_same_beginning_is_not_within() {
        assert!(is_within("/app/base", "/app/base"));
        assert!(is_within("/app/base/x", "/app/base"));
        assert!(!is_within("/app/base2", "/app/base"));
        assert!(is_within("/anything", "/"));
    }
}
