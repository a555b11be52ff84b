//! The git server of the recordings, with its quirks.

use std::collections::BTreeMap;

pub use everflow_git::testing::{File, Repository, advertisement};

use super::net::{Answer, Asked};

/// The answer to one command.
pub fn command(repository: &Repository, body: &[u8]) -> Vec<u8> {
    repository.command(body)
}

/// Ways in which a server lies about a pack, by the first part of the path.
fn spoiled(how: &str, out: Vec<u8>) -> Answer {
    const MEDIA: &str = "application/x-git-upload-pack-result";
    let start = out.windows(4).position(|four| four == b"PACK");
    let Some(start) = start else {
        return Answer::new(200, MEDIA, out);
    };
    let mut out = out;
    match how {
        "stall" => {
            let sent = start + 40;
            return Answer::HangAfter { body: out, sent };
        }
        // The end of the pack is missing, and the stream ends in good order.
        "short" => {
            let kept = start + 30;
            out.truncate(kept);
            let length = format!("{:04x}", kept - (start - 5));
            out[start - 5..start - 1].copy_from_slice(length.as_bytes());
            out.extend_from_slice(b"0000");
        }
        // One byte of an object is another.
        "flip" => out[start + 20] ^= 0x55,
        // It promises more objects than there are.
        "count" => out[start + 8..start + 12].copy_from_slice(&u32::MAX.to_be_bytes()),
        "version" => out[start + 7] = 9,
        // The first object claims to be larger than any disk.
        "size" => out[start + 12..start + 22].copy_from_slice(&[0xff; 10]),
        other => panic!("there is no way {other} to spoil a pack"),
    }
    Answer::new(200, MEDIA, out)
}

/// Answers as a git server with these repositories, and with the quirks of the recording's.
pub fn answer(repositories: &BTreeMap<String, Repository>, asked: &Asked) -> Answer {
    let (path, _) = asked.target.split_once('?').unwrap_or((&asked.target, ""));
    if path.starts_with("/hang/") {
        return Answer::Hang;
    }
    if path.starts_with("/forbid/") {
        return Answer::status(403);
    }
    if path.starts_with("/err/") {
        return Answer::status(500);
    }
    let bearer = asked.header("authorization") == Some("Bearer tok");
    if path.starts_with("/auth/") && !asked.is_signed_in() && !bearer {
        return Answer::status(401);
    }
    let path = path.strip_prefix("/auth").unwrap_or(path);
    let (how, path) = match path.strip_prefix("/spoiled/") {
        Some(rest) => rest.split_once('/').unwrap(),
        None => ("", path),
    };
    let Some((name, rest)) = path.trim_start_matches('/').split_once(".git/") else {
        return Answer::status(404);
    };
    let Some(repository) = repositories.get(name) else {
        return Answer::status(404);
    };
    match rest {
        "info/refs" => {
            let mut out = Vec::new();
            out.extend_from_slice(b"001e# service=git-upload-pack\n0000");
            out.extend_from_slice(&advertisement());
            Answer::new(200, "application/x-git-upload-pack-advertisement", out)
        }
        "git-upload-pack" => {
            let out = command(repository, &asked.body);
            match how {
                "" => Answer::new(200, "application/x-git-upload-pack-result", out),
                how => spoiled(how, out),
            }
        }
        _ => Answer::status(404),
    }
}
