//! Archives: written the way Flux writes them, byte for byte, and read with care.

mod deflate;
pub mod digest;
mod huffman;
pub mod ignore;
mod tar_writer;
mod tree;
pub mod unpack;

pub use deflate::GzipWriter;
pub use digest::{Algorithm, Digest, DigestWriter, Digester, digest_of, digest_reader};
pub use ignore::{Ignore, Pattern};
pub use tar_writer::{ArchiveWriter, Summary};
pub use tree::{Place, Tree};
pub use unpack::{Item, Links, UnpackLimits, read_archive, read_tar, unpack_to_disk};
