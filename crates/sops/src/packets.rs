//! OpenPGP packets in ASCII armor: the keys and signatures that they make up.
//!
//! The `pgp` crate puts the `Debug` form of an error into its messages. With `RUST_BACKTRACE` set that form holds a
//! backtrace, so that a few bytes of input load the debug information of the whole program and show in a status.
//! Packets that cannot be read are turned into plain messages here before it sees them.

use std::io::BufReader;

use pgp::armor::{BlockType, Dearmor};
use pgp::composed::Deserializable;
use pgp::errors::Error;
use pgp::packet::{Packet, PacketParser};

/// All keys, or all signatures, of an armored text, each with what is wrong with it.
///
/// # Errors
/// When the armor cannot be read or holds something else.
pub fn read_armored<T: Deserializable>(armored: &[u8]) -> Result<Vec<Result<T, String>>, String> {
    let mut dearmor = Dearmor::new(armored);
    dearmor.read_header().map_err(|error| explain(&error))?;
    match dearmor.typ {
        Some(kind) if is_of_pgp(kind) && T::matches_block_type(kind) => {}
        Some(kind) => return Err(format!("unexpected block type: {kind}")),
        None => return Err("the armor does not say what it holds".to_owned()),
    }
    let packets = PacketParser::new(BufReader::new(dearmor)).filter_map(judged);
    Ok(T::from_packets(packets.peekable())
        .map(|one| one.map_err(|error| explain(&error)))
        .collect())
}

fn is_of_pgp(kind: BlockType) -> bool {
    matches!(
        kind,
        BlockType::PublicKey
            | BlockType::PrivateKey
            | BlockType::Message
            | BlockType::MultiPartMessage(..)
            | BlockType::Signature
            | BlockType::CleartextMessage
            | BlockType::File
    )
}

/// Leaves out what may be ignored: fillers, and packets that are cut off, of a kind that is not known, or on an
/// elliptic curve in a way that makes no sense.
fn judged(packet: Result<Packet, Error>) -> Option<Result<Packet, Error>> {
    let error = match packet {
        Ok(Packet::Marker(_) | Packet::Padding(_)) => return None,
        Ok(packet) => return Some(Ok(packet)),
        Err(error) => error,
    };
    let ignored = match &error {
        Error::Unsupported { .. } | Error::PacketIncomplete { .. } => true,
        Error::InvalidPacketContent { source } => matches!(
            **source,
            Error::Unsupported { .. } | Error::EllipticCurve { .. }
        ),
        _ => false,
    };
    (!ignored).then(|| {
        Err(Error::Message {
            message: explain(&error),
            backtrace: None,
        })
    })
}

/// What an error says, without a backtrace.
pub fn explain(mut error: &Error) -> String {
    while let Error::InvalidPacketContent { source } = error {
        error = source;
    }
    error.to_string()
}

#[cfg(test)]
mod tests {
    use pgp::composed::SignedPublicKey;

    use super::*;

    #[test]
    fn errors_of_packets_are_plain_text() {
        // A packet of a kind that must be known.
        let key =
            "-----BEGIN PGP PUBLIC KEY BLOCK-----\n\n3gA=\n-----END PGP PUBLIC KEY BLOCK-----\n";
        let read = read_armored::<SignedPublicKey>(key.as_bytes()).unwrap();
        assert_eq!(
            read,
            [Err(
                "Unassigned Critical Packet type UnassignedCriticalTag(30)".to_owned()
            )]
        );
    }

    #[test]
    fn other_blocks_are_refused() {
        let message = "-----BEGIN PGP SIGNATURE-----\n\n3gA=\n-----END PGP SIGNATURE-----\n";
        let error = read_armored::<SignedPublicKey>(message.as_bytes()).unwrap_err();
        assert!(error.starts_with("unexpected block type"), "{error}");
    }
}
