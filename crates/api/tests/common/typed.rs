//! Objects of any kind, read into their type and written back.

use everflow_api::error::ApiError;
use everflow_api::helm::HelmRelease;
use everflow_api::kustomization::Kustomization;
use everflow_api::notification::{Alert, Provider, Receiver};
use everflow_api::source::{
    Bucket, ExternalArtifact, GitRepository, HelmChart, HelmRepository, OCIRepository,
};
use everflow_api::{Kind, Object, crd};
use everflow_json::Value;

fn there_and_back<K: Kind>(object: &Value) -> Result<Value, ApiError> {
    let read = Object::<K>::read(object)?;
    // Written and read again, nothing has changed either.
    let again = Object::<K>::read(&read.to_value())?;
    assert_eq!(read.to_value(), again.to_value());
    Ok(read.to_value())
}

/// The object as it comes back; nothing for kinds and versions that are not ours.
pub fn by_kind(object: &Value) -> Option<Result<Value, ApiError>> {
    let (group, version) = object["apiVersion"].as_str()?.split_once('/')?;
    let info = crd::kind(Some(group), object["kind"].as_str()?)?;
    if info.version != version {
        return None;
    }
    Some(match info.kind {
        "GitRepository" => there_and_back::<GitRepository>(object),
        "OCIRepository" => there_and_back::<OCIRepository>(object),
        "Bucket" => there_and_back::<Bucket>(object),
        "HelmRepository" => there_and_back::<HelmRepository>(object),
        "HelmChart" => there_and_back::<HelmChart>(object),
        "ExternalArtifact" => there_and_back::<ExternalArtifact>(object),
        "Kustomization" => there_and_back::<Kustomization>(object),
        "HelmRelease" => there_and_back::<HelmRelease>(object),
        "Alert" => there_and_back::<Alert>(object),
        "Provider" => there_and_back::<Provider>(object),
        "Receiver" => there_and_back::<Receiver>(object),
        other => panic!("no type for {other}"),
    })
}
