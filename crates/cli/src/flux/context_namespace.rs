//! `--ns-follows-kube-context`: the namespace of the kubeconfig's context where none is given.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::ArgMatches;
use clap::parser::ValueSource;
use everflow_json::Value;

/// The words of the command line with the namespace that the context says, when that is asked for and nothing else
/// says which.
pub fn followed(matches: &ArgMatches, mut words: Vec<OsString>) -> Option<Vec<OsString>> {
    let mut matches = matches;
    while let Some((_, below)) = matches.subcommand() {
        matches = below;
    }
    let flag = matches.try_get_one::<bool>("ns_follows_kube_context");
    let is_wanted = *flag.ok()??
        || std::env::var_os("FLUX_NS_FOLLOWS_KUBE_CONTEXT").is_some_and(|word| !word.is_empty());
    if !is_wanted || matches.value_source("namespace") != Some(ValueSource::DefaultValue) {
        return None;
    }
    let context = matches.get_one::<String>("context").map(String::as_str);
    let namespace = match matches.get_one::<PathBuf>("kubeconfig") {
        Some(file) => in_file(file, context),
        None => {
            let listed = std::env::var_os("KUBECONFIG").unwrap_or_default();
            let home = std::env::var_os("HOME").map(|home| Path::new(&home).join(".kube/config"));
            let mut files = std::env::split_paths(&listed).chain(home);
            let file = files.find(|file| file.is_file())?;
            in_file(&file, context)
        }
    }?;
    words.insert(2, format!("--namespace={namespace}").into());
    Some(words)
}

fn in_file(file: &Path, context: Option<&str>) -> Option<String> {
    let text = std::fs::read(file).ok()?;
    let config = everflow_yaml::sigs::yaml_to_json(&text).ok()?;
    of_context(&config, context)
}

/// The namespace of a context, or of the current one; `None` when it names none.
fn of_context(config: &Value, context: Option<&str>) -> Option<String> {
    let name = context.or(config["current-context"].as_str())?;
    let mut contexts = config["contexts"].as_array()?.iter();
    let found = contexts.find(|one| one["name"] == name)?;
    let namespace = found["context"]["namespace"].as_str()?;
    (!namespace.is_empty()).then(|| namespace.to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;
    use everflow_json::json;

    #[test]
    fn namespace_is_that_of_the_context_where_it_has_one() {
        let config = json!({"current-context": "one", "contexts": [
            {"name": "one", "context": {"cluster": "c", "namespace": "apps"}},
            {"name": "two", "context": {"cluster": "c"}}]});
        assert_eq!(of_context(&config, None).as_deref(), Some("apps"));
        assert_eq!(of_context(&config, Some("two")), None);
        assert_eq!(of_context(&config, Some("three")), None);
    }

    #[test]
    fn a_namespace_that_is_given_counts_more() {
        let place = std::env::temp_dir().join(format!("everflow-context-{}", std::process::id()));
        std::fs::write(
            &place,
            "current-context: a\ncontexts: [{name: a, context: {namespace: apps}}]\n",
        )
        .unwrap();
        let kubeconfig = format!("--kubeconfig={}", place.display());
        let asked = |more: &[&str]| {
            let all = [&["everflow", "get", "ks", kubeconfig.as_str()], more].concat();
            let words: Vec<OsString> = all.iter().map(OsString::from).collect();
            let matches = crate::args::program().try_get_matches_from(words.clone());
            followed(&matches.unwrap(), words)
        };
        let follows = "--ns-follows-kube-context";
        assert_eq!(asked(&[]), None);
        assert_eq!(asked(&[follows, "-n", "given"]), None);
        let words = asked(&[follows]).unwrap();
        assert_eq!(words[2], "--namespace=apps");
        let matches = crate::args::program().try_get_matches_from(words);
        assert!(matches.is_ok());
        std::fs::remove_file(&place).unwrap();
    }
}
