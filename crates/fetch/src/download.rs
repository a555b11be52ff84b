//! From an answer to a file.

use std::io::Write as _;

use everflow_env::{Env, run_blocking};

use crate::Error;
use crate::archive::{Algorithm, Digest, Digester};
use crate::http::Body;

/// Pieces go to the disk when they are so large.
const PIECE: usize = 512 * 1024;

/// Writes the rest of an answer to a file. More than `limit` bytes are an error. The file is not
/// synced: it is for the temporary area.
pub(crate) async fn save(
    env: &Env,
    mut body: Body,
    path: &str,
    algorithm: Algorithm,
    limit: u64,
) -> Result<(Digest, u64), Error> {
    let (disk, name) = (env.disk.clone(), path.to_owned());
    let mut file = run_blocking(&*env.blocking, move || disk.create(&name))
        .await
        .ok_or(Error::Lost)?
        .map_err(|error| Error::disk("create", path, error))?;
    let mut digester = Digester::new(algorithm);
    let mut piece = Vec::new();
    let mut total = 0;
    loop {
        let chunk = body.chunk().await?;
        let ended = chunk.is_none();
        piece.extend_from_slice(&chunk.unwrap_or_default());
        if piece.len() < PIECE && !ended {
            continue;
        }
        total += piece.len() as u64;
        if total > limit {
            return Err(Error::TooLarge {
                what: "the download".to_owned(),
                limit,
            });
        }
        let work = move || {
            digester.update(&piece);
            let done = file.write_all(&piece);
            piece.clear();
            done.map(|()| (file, digester, piece))
        };
        (file, digester, piece) = run_blocking(&*env.blocking, work)
            .await
            .ok_or(Error::Lost)?
            .map_err(|error| Error::disk("write", path, error))?;
        if ended {
            return Ok((digester.finish(), total));
        }
    }
}
