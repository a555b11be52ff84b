//! Streams of documents, cut the way each Go tool cuts them.
//!
//! | who reads | function |
//! |---|---|
//! | `NewYAMLReader` of apimachinery | [`yaml_reader`] |
//! | kubectl and client-go (`NewYAMLOrJSONDecoder`) | [`yaml_or_json_decoder`] |
//! | API server frames (`NewDocumentDecoder`) | [`document_decoder`] |
//! | kyaml (`kio.ByteReader`) | [`kio_reader`] |
//! | kustomize's resource factory | [`kustomize_documents`] |
//! | helm's rendered manifests | [`helm_manifests`] |
//! | helm's values files | [`helm_values`] |

mod apimachinery;
mod helm;
mod kio;
mod kustomize;
mod meta;
mod trim;

pub use apimachinery::{
    Decoded, YamlOrJsonDecoder, YamlReader, document_decoder, yaml_or_json_decoder, yaml_reader,
};
pub use helm::{helm_manifests, helm_values};
pub use kio::{KioDocuments, KioReader, Wrapping, kio_reader, kio_texts};
pub use kustomize::{kustomize_documents, kustomize_documents_within};
pub use meta::{ResourceMeta, resource_meta};
