//! How much memory this process may use, and does.

use std::path::{Path, PathBuf};

/// Where control groups are mounted.
const CGROUPS: &str = "/sys/fs/cgroup";

/// The bytes that this process may use: the limit of its control group, else what the machine has.
/// `None` where neither can be read.
pub fn limit() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let machine = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    smallest(Path::new(CGROUPS), &groups, &machine)
}

/// The bytes of this process that are in memory.
pub fn resident() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    kilobytes(&status, "VmRSS:")
}

/// A field of `/proc`: `NAME:   123 kB`.
fn kilobytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    let number: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    number.checked_mul(1024)
}

fn smallest(root: &Path, groups: &str, machine: &str) -> Option<u64> {
    let mut files: Vec<PathBuf> = Vec::new();
    for line in groups.lines() {
        let mut fields = line.splitn(3, ':');
        let (_, controllers, path) = (fields.next(), fields.next(), fields.next());
        let (below, file) = match controllers {
            Some("") => (root.to_owned(), "memory.max"),
            Some(names) if names.split(',').any(|name| name == "memory") => {
                (root.join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // Inside a container the path may be that of the host; then the mount itself is ours.
        let path = path.unwrap_or_default().trim_start_matches('/');
        let mut group = below.join(path);
        while group.starts_with(&below) {
            files.push(group.join(file));
            if !group.pop() {
                break;
            }
        }
    }
    let limits = files
        .iter()
        .filter_map(|file| std::fs::read_to_string(file).ok());
    let limits = limits.filter_map(|text| text.trim().parse::<u64>().ok());
    limits.chain(kilobytes(machine, "MemTotal:")).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MACHINE: &str = "MemTotal:       24000000 kB\nMemFree:  1 kB\n";

    #[test]
    fn limit_of_the_group_or_a_parent_counts_else_that_of_the_machine() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("kubepods/pod1");
        std::fs::create_dir_all(&group).unwrap();
        let of = |groups| smallest(root.path(), groups, MACHINE);
        assert_eq!(of("0::/kubepods/pod1\n"), Some(24_000_000 * 1024));
        std::fs::write(group.join("memory.max"), "max\n").unwrap();
        assert_eq!(of("0::/kubepods/pod1\n"), Some(24_000_000 * 1024));
        std::fs::write(root.path().join("kubepods/memory.max"), "67108864\n").unwrap();
        assert_eq!(of("0::/kubepods/pod1\n"), Some(64 << 20));
        assert_eq!(of("nonsense"), Some(24_000_000 * 1024));
        assert_eq!(smallest(root.path(), "", ""), None);
    }

    #[test]
    fn limit_of_the_first_version_of_control_groups_is_read() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("memory/docker/a");
        std::fs::create_dir_all(&group).unwrap();
        std::fs::write(group.join("memory.limit_in_bytes"), "1048576").unwrap();
        let groups = "4:cpu,cpuacct:/docker/a\n3:memory:/docker/a\n";
        assert_eq!(smallest(root.path(), groups, MACHINE), Some(1 << 20));
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_has_a_limit_and_uses_less() {
        assert!(resident().unwrap() < limit().unwrap());
    }
}
