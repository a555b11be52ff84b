//! A message for NATS: one connection, one message.

use everflow_env::{Env, Stream};
use everflow_fetch::Deadline;
use everflow_fetch::http::{Limits, TlsOptions, start_tls};
use everflow_notify::exchange::Unreachable;
use everflow_notify::provider::nats::{Progress, Publish, Server};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Publishes a message at the first server that takes it.
pub(super) async fn publish(
    env: &Env,
    publish: &Publish,
    tls: Option<&TlsOptions>,
    deadline: &Deadline,
) -> Result<(), Unreachable> {
    let mut last = passing("nats: no servers available for connection");
    for server in &publish.servers {
        match talk(env, publish, server, tls, deadline).await {
            Ok(()) => return Ok(()),
            Err(why) => last = why,
        }
    }
    Err(last)
}

fn passing(message: impl Into<String>) -> Unreachable {
    Unreachable {
        message: message.into(),
        is_final: false,
    }
}

async fn talk(
    env: &Env,
    publish: &Publish,
    server: &Server,
    tls: Option<&TlsOptions>,
    deadline: &Deadline,
) -> Result<(), Unreachable> {
    let limits = Limits::default();
    let plain = TlsOptions::default();
    let secured = |stream| {
        start_tls(
            env,
            tls.unwrap_or(&plain),
            &server.host,
            stream,
            &limits,
            deadline,
        )
    };
    let stream = everflow_connect::dial(env, &server.host, server.port, limits.spans(), deadline);
    let mut stream = stream.await.map_err(|error| passing(error.to_string()))?;
    let mut session = publish.session(server);
    let mut buffer = vec![0; 16 << 10];
    let mut progress = Progress::Read;
    loop {
        let out = match progress {
            Progress::Read => {
                let read = read(&mut stream, &mut buffer, deadline).await?;
                progress = session.read(&buffer[..read]);
                continue;
            }
            Progress::Done => return Ok(()),
            Progress::Refused(why) => return Err(passing(why)),
            Progress::Write(out) => out,
            Progress::StartTls(out) => {
                stream = secured(stream)
                    .await
                    .map_err(|error| passing(error.to_string()))?;
                out
            }
        };
        write(&mut stream, out.reveal(), deadline).await?;
        // More lines may have come with the last one.
        progress = session.read(&[]);
    }
}

async fn write(
    stream: &mut Box<dyn Stream>,
    bytes: &[u8],
    deadline: &Deadline,
) -> Result<(), Unreachable> {
    let writing = async {
        stream.write_all(bytes).await?;
        stream.flush().await
    };
    match deadline.wait(writing).await {
        Some(Ok(())) => Ok(()),
        Some(Err(error)) => Err(passing(error.to_string())),
        None => Err(passing("context deadline exceeded")),
    }
}

async fn read(
    stream: &mut Box<dyn Stream>,
    buffer: &mut [u8],
    deadline: &Deadline,
) -> Result<usize, Unreachable> {
    match deadline.wait(stream.read(buffer)).await {
        Some(Ok(0)) => Err(passing("EOF")),
        Some(Ok(read)) => Ok(read),
        Some(Err(error)) => Err(passing(error.to_string())),
        None => Err(passing("context deadline exceeded")),
    }
}
