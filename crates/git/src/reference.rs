//! Which commit is meant: branches, tags, ranges of versions, names and commits.

use everflow_semver::{Constraint, Version};

use super::object::ObjectId;
use super::protocol::Ref;
use crate::Error;

/// What of a repository is wanted. Of those given, the first of this order counts: commit, name,
/// tag, semver, branch; without any the branch `master`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GitRef {
    /// A branch.
    pub branch: String,
    /// A tag.
    pub tag: String,
    /// A range of versions; the highest tag in it is taken.
    pub semver: String,
    /// A full name as `refs/pull/1/head`.
    pub name: String,
    /// The id of a commit.
    pub commit: String,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resolution {
    /// The full name, as `refs/heads/main`; empty for a bare commit.
    pub reference: String,
    /// The commit.
    pub commit: ObjectId,
    /// What to ask the server for: the commit, or the annotated tag in front of it.
    pub want: ObjectId,
    /// As `main@sha1:…`, the way Flux writes revisions.
    pub revision: String,
    /// The commit was given by its id: the server was not asked whether it is there.
    pub by_id: bool,
}

impl Resolution {
    fn of(reference: &Ref, absolute: bool) -> Self {
        Resolution {
            reference: reference.name.clone(),
            commit: reference.commit(),
            want: reference.id,
            revision: revision(&reference.name, reference.commit(), absolute),
            by_id: false,
        }
    }
}

/// The revision of a commit behind a name; shortened to a branch or tag unless `absolute`.
pub fn revision(reference: &str, commit: ObjectId, absolute: bool) -> String {
    let short = reference.splitn(3, '/').nth(2);
    match (absolute, short) {
        (true, _) if !reference.is_empty() => format!("{reference}@sha1:{commit}"),
        (false, Some(short)) => format!("{short}@sha1:{commit}"),
        _ => format!("sha1:{commit}"),
    }
}

/// What to ask the server, and how to read its answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Question {
    Commit {
        id: String,
        branch: String,
        name: String,
    },
    Name(String),
    Tag(String),
    Semver(String),
    Branch(String),
}

/// Tags that are the same version but for their build metadata; the youngest commit decides.
#[derive(Debug)]
pub(crate) enum Answer {
    Found(Resolution),
    Ties(Vec<Ref>),
}

const PEELED: &str = "^{}";

impl Question {
    pub(crate) fn new(reference: &GitRef) -> Result<Self, Error> {
        let text = |text: &str| text.to_owned();
        Ok(if !reference.commit.is_empty() {
            Question::Commit {
                id: text(&reference.commit),
                branch: text(&reference.branch),
                name: text(&reference.name),
            }
        } else if !reference.name.is_empty() {
            let name = &reference.name;
            if name.starts_with('/') || name.ends_with('/') {
                return Err(Error::Git(format!(
                    "ref {name} is invalid; Git refs cannot begin or end with a slash '/'"
                )));
            }
            Question::Name(text(name))
        } else if !reference.tag.is_empty() {
            Question::Tag(text(&reference.tag))
        } else if !reference.semver.is_empty() {
            constraint(&reference.semver)?;
            Question::Semver(text(&reference.semver))
        } else if !reference.branch.is_empty() {
            Question::Branch(text(&reference.branch))
        } else {
            Question::Branch(text("master"))
        })
    }

    /// The beginnings of the names that matter.
    pub(crate) fn prefixes(&self) -> Vec<String> {
        match self {
            Question::Commit { branch, .. } if !branch.is_empty() => {
                vec![format!("refs/heads/{branch}")]
            }
            Question::Commit { .. } => vec!["HEAD".to_owned()],
            Question::Name(name) => vec![name.trim_end_matches(PEELED).to_owned()],
            Question::Tag(tag) => vec![format!("refs/tags/{tag}")],
            Question::Semver(_) => vec!["refs/tags/".to_owned()],
            Question::Branch(branch) => vec![format!("refs/heads/{branch}")],
        }
    }

    pub(crate) fn answer(&self, refs: &[Ref]) -> Result<Answer, Error> {
        let find = |name: &str| refs.iter().find(|one| one.name == name);
        let must = |name: String| {
            find(&name)
                .ok_or_else(|| Error::RefMissing(format!("couldn't find remote ref {name:?}")))
        };
        Ok(Answer::Found(match self {
            Question::Branch(branch) => {
                Resolution::of(must(format!("refs/heads/{branch}"))?, false)
            }
            Question::Tag(tag) => Resolution::of(must(format!("refs/tags/{tag}"))?, false),
            Question::Name(name) => by_name(name, find(name.trim_end_matches(PEELED)))?,
            Question::Semver(range) => return by_version(range, refs),
            Question::Commit { id, branch, name } => {
                if !branch.is_empty() {
                    must(format!("refs/heads/{branch}"))?;
                }
                let commit = ObjectId::parse(id).ok_or_else(|| commit_missing(id))?;
                let (reference, absolute) = match (name.is_empty(), branch.is_empty()) {
                    (false, _) => (name.clone(), true),
                    (true, false) => (format!("refs/heads/{branch}"), false),
                    (true, true) => (String::new(), false),
                };
                Resolution {
                    revision: revision(&reference, commit, absolute),
                    reference,
                    commit,
                    want: commit,
                    by_id: true,
                }
            }
        }))
    }
}

/// The commit that was named is not there.
pub(crate) fn commit_missing(id: &str) -> Error {
    Error::Git(format!(
        "unable to resolve commit object for '{id}': object not found"
    ))
}

fn by_name(name: &str, found: Option<&Ref>) -> Result<Resolution, Error> {
    let Some(found) = found else {
        return Err(Error::Git(format!(
            "unable to resolve ref '{name}' to a specific commit"
        )));
    };
    let commit = match found.name.starts_with("refs/tags/") || name.ends_with(PEELED) {
        true => found.commit(),
        false => found.id,
    };
    Ok(Resolution {
        revision: revision(name, commit, true),
        reference: name.to_owned(),
        commit,
        want: found.id,
        by_id: false,
    })
}

fn constraint(range: &str) -> Result<Constraint, Error> {
    Constraint::parse(range).map_err(|error| Error::Git(format!("semver parse error: {error}")))
}

fn by_version(range: &str, refs: &[Ref]) -> Result<Answer, Error> {
    let constraint = constraint(range)?;
    let mut best: Vec<(Version, &Ref)> = Vec::new();
    for one in refs {
        let Some(version) = one.name.strip_prefix("refs/tags/").and_then(parse_version) else {
            continue;
        };
        if !constraint.check(&version) {
            continue;
        }
        let order = best
            .first()
            .map_or(std::cmp::Ordering::Greater, |(top, _)| {
                version.cmp_precedence(top)
            });
        match order {
            std::cmp::Ordering::Greater => best = vec![(version, one)],
            std::cmp::Ordering::Equal => best.push((version, one)),
            std::cmp::Ordering::Less => {}
        }
    }
    match best.as_slice() {
        [] => Err(Error::Git(format!("no match found for semver: {range}"))),
        [(_, one)] => Ok(Answer::Found(Resolution::of(one, false))),
        many => Ok(Answer::Ties(
            many.iter().map(|(_, one)| (*one).clone()).collect(),
        )),
    }
}

/// Versions have three numbers; a `v` in front is fine.
fn parse_version(tag: &str) -> Option<Version> {
    Version::parse_strict(tag.strip_prefix('v').unwrap_or(tag)).ok()?;
    Version::parse(tag).ok()
}

/// Of tags with equal versions the one whose commit is youngest; with equal times the last by name.
pub(crate) fn youngest(ties: &[Ref], seconds: &dyn Fn(ObjectId) -> i64) -> Option<Resolution> {
    ties.iter()
        .max_by_key(|one| (seconds(one.commit()), one.name.clone()))
        .map(|one| Resolution::of(one, false))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> ObjectId {
        ObjectId([byte; 20])
    }

    fn refs(names: &[(&str, u8)]) -> Vec<Ref> {
        let one = |(name, byte): &(&str, u8)| Ref {
            name: (*name).to_owned(),
            id: id(*byte),
            peeled: None,
        };
        names.iter().map(one).collect()
    }

    fn ask(reference: &GitRef, refs: &[Ref]) -> Result<String, String> {
        let found = Question::new(reference).and_then(|question| question.answer(refs));
        match found {
            Ok(Answer::Found(found)) => {
                Ok(found.revision.replace(&found.commit.to_string(), "SHA")
                    + &format!(" {}", found.commit.0[0]))
            }
            Ok(Answer::Ties(ties)) => Ok(format!("{} ties", ties.len())),
            Err(error) => Err(error.to_string()),
        }
    }

    #[test]
    fn the_order_of_forms_is_flux_s() {
        let mut known = refs(&[
            ("refs/heads/main", 1),
            ("refs/heads/feature/x@1", 2),
            ("refs/tags/v1.0.0", 3),
            ("refs/tags/v1.1.0", 4),
            ("refs/tags/v2.0.0-rc.1", 5),
            ("refs/pull/1/head", 6),
            ("refs/tags/1.0", 7),
        ]);
        known[3].peeled = Some(id(40));
        let form = |change: &dyn Fn(&mut GitRef)| {
            let mut reference = GitRef::default();
            change(&mut reference);
            reference
        };
        let sha = "2".repeat(40);
        for (reference, expected) in [
            (form(&|one| one.branch = "main".into()), "main@sha1:SHA 1"),
            (
                form(&|one| one.branch = "feature/x@1".into()),
                "feature/x@1@sha1:SHA 2",
            ),
            (form(&|one| one.tag = "v1.1.0".into()), "v1.1.0@sha1:SHA 40"),
            (
                form(&|one| one.semver = ">=1.0.0".into()),
                "v1.1.0@sha1:SHA 40",
            ),
            (
                form(&|one| one.semver = ">=1.0.0-0".into()),
                "v2.0.0-rc.1@sha1:SHA 5",
            ),
            (
                form(&|one| {
                    one.semver = ">=1.0.0".into();
                    one.tag = "v1.0.0".into();
                }),
                "v1.0.0@sha1:SHA 3",
            ),
            (
                form(&|one| {
                    one.tag = "v1.0.0".into();
                    one.name = "refs/heads/main".into();
                }),
                "refs/heads/main@sha1:SHA 1",
            ),
            (
                form(&|one| one.name = "refs/tags/v1.1.0".into()),
                "refs/tags/v1.1.0@sha1:SHA 40",
            ),
            (
                form(&|one| one.name = "refs/pull/1/head".into()),
                "refs/pull/1/head@sha1:SHA 6",
            ),
            (form(&|one| one.commit = sha.clone()), "sha1:SHA 34"),
            (
                form(&|one| {
                    one.commit = sha.clone();
                    one.branch = "main".into();
                }),
                "main@sha1:SHA 34",
            ),
        ] {
            assert_eq!(ask(&reference, &known).unwrap(), expected, "{reference:?}");
        }
        for (reference, expected) in [
            (
                GitRef::default(),
                "couldn't find remote ref \"refs/heads/master\"",
            ),
            (
                form(&|one| one.tag = "v9".into()),
                "couldn't find remote ref \"refs/tags/v9\"",
            ),
            (
                form(&|one| one.semver = ">=5.0.0".into()),
                "no match found for semver: >=5.0.0",
            ),
            (
                form(&|one| one.semver = "not a range".into()),
                "semver parse error: improper constraint: \"not a range\"",
            ),
            (
                form(&|one| one.name = "main".into()),
                "unable to resolve ref 'main' to a specific commit",
            ),
            (
                form(&|one| one.name = "/main".into()),
                "ref /main is invalid; Git refs cannot begin or end with a slash '/'",
            ),
            (
                form(&|one| one.commit = "0123456".into()),
                "unable to resolve commit object for '0123456': object not found",
            ),
        ] {
            assert_eq!(ask(&reference, &known).unwrap_err(), expected);
        }
    }

    #[test]
    fn equal_versions_are_decided_by_the_youngest_commit() {
        let known = refs(&[
            ("refs/tags/1.0.0+a", 1),
            ("refs/tags/v1.0.0+b", 2),
            ("refs/tags/0.9.0", 3),
        ]);
        let reference = GitRef {
            semver: "*".to_owned(),
            ..GitRef::default()
        };
        assert_eq!(ask(&reference, &known).unwrap(), "2 ties");
        let ties = &known[..2];
        let found = youngest(ties, &|commit| if commit == id(1) { 9 } else { 5 }).unwrap();
        assert_eq!(found.commit, id(1));
    }
}
