//! A Helm repository on this machine.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::Command;
use std::sync::{Arc, Mutex};

/// Serves a directory over HTTP, and remembers what was asked for.
pub struct Repository {
    pub url: String,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Repository {
    /// Serves the charts that `packed` put into a directory.
    pub fn serve(directory: &Path) -> Self {
        Repository::serve_on("127.0.0.1", directory)
    }

    /// The same at an address of this machine.
    pub fn serve_on(address: &str, directory: &Path) -> Self {
        let listener = TcpListener::bind((address, 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let asked = Arc::new(Mutex::new(Vec::new()));
        let (root, noted) = (directory.to_owned(), asked.clone());
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let mut stream = stream.unwrap();
                let mut request = Vec::new();
                let mut chunk = [0; 1024];
                while !request.ends_with(b"\r\n\r\n") {
                    match stream.read(&mut chunk) {
                        Ok(read @ 1..) => request.extend_from_slice(&chunk[..read]),
                        _ => break,
                    }
                }
                let request = String::from_utf8_lossy(&request).into_owned();
                let path = request.split(' ').nth(1).unwrap_or("/").to_owned();
                noted.lock().unwrap().push(path.clone());
                let (status, body) = match fs::read(root.join(path.trim_start_matches('/'))) {
                    Ok(body) => ("200 OK", body),
                    Err(_) => ("404 Not Found", Vec::new()),
                };
                let head = format!(
                    "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
                    body.len()
                );
                let _ = stream.write_all(head.as_bytes());
                let _ = stream.write_all(&body);
            }
        });
        Repository { url, asked }
    }

    /// What was asked for since the last look.
    pub fn asked(&self) -> Vec<String> {
        std::mem::take(&mut *self.asked.lock().unwrap())
    }
}

/// Packs versions of a chart of one template into a directory, with the index.
pub fn packed(directory: &Path, name: &str, versions: &[(&str, &str)]) {
    fs::create_dir_all(directory).unwrap();
    let mut index = format!("apiVersion: v1\nentries:\n  {name}:\n");
    for (version, template) in versions {
        let place = directory.join(format!("{name}-{version}"));
        let chart = place.join(name);
        fs::create_dir_all(chart.join("templates")).unwrap();
        let metadata = format!("apiVersion: v2\nname: {name}\nversion: {version}\n");
        fs::write(chart.join("Chart.yaml"), &metadata).unwrap();
        fs::write(chart.join("values.yaml"), "color: red\n").unwrap();
        fs::write(chart.join("templates/objects.yaml"), template).unwrap();
        let file = format!("{name}-{version}.tgz");
        let packed = Command::new("tar")
            .arg("-czf")
            .arg(directory.join(&file))
            .arg("-C")
            .arg(&place)
            .arg(name)
            .status()
            .unwrap();
        assert!(packed.success());
        index += &format!("  - name: {name}\n    version: {version}\n    urls: [{file}]\n");
    }
    fs::write(directory.join("index.yaml"), index).unwrap();
}
