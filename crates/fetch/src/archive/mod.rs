//! Archives: written the way Flux writes them, byte for byte, and read with care.

mod deflate;
pub mod digest;
mod huffman;
pub mod ignore;
mod tar_writer;
mod tree;
pub mod unpack;

pub use deflate::GzipWriter;
pub use everflow_tar::{Budgeted, Limit, Limits};

pub use digest::{Algorithm, Digest, DigestWriter, Digester, digest_of, digest_reader};
pub use ignore::{Ignore, Pattern};
pub use tar_writer::{ArchiveWriter, Summary};
pub use tree::{Place, Tree};
pub use unpack::{Item, Links, artifact_limits, copy_content, read_archive, unpack_to_disk};
