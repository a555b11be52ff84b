//! A cluster of the program under test, on a port of its own.

use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Output, Stdio};

/// Ends with the test.
pub struct Cluster {
    child: Child,
    /// Kept open: a program that cannot print ends.
    _printed: BufReader<ChildStdout>,
    pub directory: PathBuf,
}

impl Cluster {
    /// Starts one and waits until it serves.
    pub fn start(name: &str, more: &[&str]) -> Self {
        let directory =
            std::env::temp_dir().join(format!("everflow-{name}-{}", std::process::id()));
        let _ = std::fs::remove_dir_all(&directory);
        std::fs::create_dir_all(&directory).unwrap();
        let mut child = Command::new(env!("CARGO_BIN_EXE_everflow"))
            .args(["cluster", "start", "--listen", "127.0.0.1:0"])
            .arg("--kubeconfig")
            .arg(directory.join("kubeconfig"))
            .args(more)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        let mut printed = BufReader::new(child.stdout.take().unwrap());
        printed.read_line(&mut line).unwrap();
        assert!(line.contains("serving"), "{line}");
        Cluster {
            child,
            _printed: printed,
            directory,
        }
    }

    /// Runs a client against the cluster, with a home of its own.
    pub fn run(&self, program: &Path, arguments: &[&str]) -> Output {
        Command::new(program)
            .args(arguments)
            .current_dir(&self.directory)
            .env("KUBECONFIG", self.directory.join("kubeconfig"))
            .env("HOME", &self.directory)
            .output()
            .unwrap()
    }

    /// Runs a client that must succeed; what it printed.
    pub fn must(&self, program: &Path, arguments: &[&str]) -> String {
        let output = self.run(program, arguments);
        assert!(
            output.status.success(),
            "{} {}: {}{}",
            program.display(),
            arguments.join(" "),
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// Writes a file that clients can name.
    pub fn file(&self, name: &str, text: &str) {
        let file = self.directory.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}
