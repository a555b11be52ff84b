//! Commits of a repository on this machine, made by the real git.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::print_stdout)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

use everflow_env::RealDisk;
use everflow_git::LocalRepository;

fn git(directory: &Path, arguments: &[&str]) -> bool {
    let status = Command::new("git")
        .args([
            "-c",
            "user.name=Dev",
            "-c",
            "user.email=dev@example.com",
            "-c",
            "init.defaultBranch=main",
        ])
        .args(arguments)
        .current_dir(directory)
        .output();
    status.is_ok_and(|output| output.status.success())
}

fn files(
    repository: &mut LocalRepository,
    revision: &str,
    below: &str,
) -> BTreeMap<String, String> {
    let commit = repository.commit(revision).unwrap();
    let mut files = BTreeMap::new();
    let take = |path: &str, content: &[u8]| {
        files.insert(
            path.to_owned(),
            String::from_utf8_lossy(content).into_owned(),
        );
        Ok(())
    };
    repository.files(commit, below, take).unwrap();
    files
}

#[test]
fn names_commits_and_files_loose_and_packed() {
    let place = tempfile::tempdir().unwrap();
    let root = place.path();
    if !git(root, &["init", "-q"]) {
        println!("skipped: there is no git on this machine");
        return;
    }
    for (number, text) in ["one", "two", "three"].iter().enumerate() {
        std::fs::create_dir_all(root.join("apps/web")).unwrap();
        std::fs::write(root.join("apps/web/a.yaml"), text.repeat(500)).unwrap();
        std::fs::write(root.join(format!("{number}.txt")), text).unwrap();
        assert!(git(root, &["add", "-A"]) && git(root, &["commit", "-qm", text]));
    }
    assert!(git(root, &["tag", "-a", "v1", "-m", "v1", "HEAD~1"]));
    assert!(git(root, &["branch", "old", "HEAD~2"]));
    for packed in [false, true] {
        if packed {
            assert!(git(root, &["gc", "-q", "--aggressive"]) && git(root, &["pack-refs", "--all"]));
        }
        let disk = || Arc::new(RealDisk::new(&root.join(".git")).unwrap());
        let mut repository = LocalRepository::new(disk(), disk());
        let head = files(&mut repository, "HEAD", "");
        assert_eq!(head.len(), 4);
        assert_eq!(head["apps/web/a.yaml"], "three".repeat(500));
        assert_eq!(
            files(&mut repository, "main~1", ""),
            files(&mut repository, "v1", "")
        );
        assert_eq!(
            files(&mut repository, "old", "apps")["web/a.yaml"],
            "one".repeat(500)
        );
        assert_eq!(
            repository.commit("HEAD^^").unwrap(),
            repository.commit("old").unwrap()
        );
        let id = repository.commit("HEAD").unwrap();
        let short = &id.to_string()[..8];
        assert_eq!(repository.commit(short).unwrap(), id);
        for odd in ["nope", "HEAD~9", "", "zzzz"] {
            let error = repository.commit(odd).unwrap_err().to_string();
            assert!(!error.is_empty(), "{odd}");
        }
        assert!(repository.files(id, "no/such", |_, _| Ok(())).is_err());
    }
}
