//! The readers of versions and constraints.

use everflow_corpus::hostile::{Reader, texts};
use everflow_semver::{Constraint, MAX_VERSION_LEN, Version};

/// All of them.
pub const ALL: &[Reader] = &[
    Reader::new("version", version, || {
        texts(&["1.2.3", "v1", "01.2", "1.2.3-rc.1+build.5"])
    })
    .tokens(&[".0", "-a", "+b", "v", "18446744073709551615", "-"]),
    Reader::new("constraint", constraint, || {
        texts(&[
            ">=1.2 <2 || ^3.1, !=3.1.4",
            "1.2 - 2.3",
            "~1.x",
            "*",
            "=1.0.0-0",
        ])
    })
    .tokens(&[
        "||", ">=1 ", "<", "^1.2", "~", "1 - 2 ", ".x", ",", "!=", "*",
    ]),
];

fn version(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let _ = Version::parse_strict(&text);
    let Ok(version) = Version::parse(&text) else {
        return false;
    };
    // Printed with all its parts it may be longer than what is read.
    let printed = version.to_string();
    let again = Version::parse(&printed);
    assert!(
        printed.len() > MAX_VERSION_LEN
            || again.is_ok_and(|again| again.cmp_precedence(&version).is_eq())
    );
    let _ = (
        version.next_patch(),
        version.next_minor(),
        version.next_major(),
    );
    let _ = version.with_prerelease(&text);
    let _ = version.with_metadata(&text);
    true
}

fn constraint(bytes: &[u8]) -> bool {
    let text = String::from_utf8_lossy(bytes);
    let Ok(constraint) = Constraint::parse(&text) else {
        return false;
    };
    for version in ["1.2.3", "0.0.0-0", "18446744073709551615.0.0"] {
        let version = Version::parse(version).unwrap();
        assert_eq!(
            constraint.check(&version),
            constraint.validate(&version).is_ok()
        );
    }
    let _ = constraint.latest(["1.0.0", "x", "2.0.0-rc.1"]);
    let _ = constraint.to_string();
    true
}
