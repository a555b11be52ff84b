//! Objects of a release are found again by their names.

use everflow_helm::release::Release;
use everflow_json::Value;

/// Why the objects and hooks of a new revision cannot be released: one of them has no name.
pub fn unnamed(record: &Release, objects: &[Value]) -> Option<String> {
    let is_unnamed = |object: &&Value| {
        let name = object["metadata"]["name"].as_str();
        name.unwrap_or_default().is_empty()
    };
    let found = objects.iter().find(is_unnamed).map(|object| {
        let kind = object["kind"].as_str().unwrap_or_default().to_owned();
        (kind, source_of_generated(&record.manifest))
    });
    let mut hooks = record.hooks.iter().map(|hook| &hook.hook);
    let hook = hooks.find(|hook| hook.name.is_empty());
    let of_hook = hook.map(|hook| (hook.kind.clone(), Some(hook.path.as_str())));
    let (kind, path) = found.or(of_hook)?;
    let place = path.map(|path| format!(" of {path}")).unwrap_or_default();
    Some(format!(
        "missing metadata.name in object {kind}{place}: objects of releases are applied by name, so that \
         metadata.generateName cannot be used; give the object a name in the chart"
    ))
}

/// The template that the first object with `generateName` comes from.
fn source_of_generated(manifest: &str) -> Option<&str> {
    const SOURCE: &str = "# Source: ";
    let before = manifest.get(..manifest.find("generateName:")?)?;
    let start = before.rfind(SOURCE)? + SOURCE.len();
    before.get(start..)?.lines().next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use everflow_helm::manifests::Hook;
    use everflow_helm::release::HookRecord;
    use everflow_json::json;

    #[test]
    fn object_without_a_name_is_told_with_its_template() {
        let named = json!({"kind": "Secret", "metadata": {"name": "a"}});
        let generated = json!({"kind": "ConfigMap", "metadata": {"generateName": "gen-"}});
        let record = Release {
            manifest: "---\n# Source: app/templates/a.yaml\nkind: Secret\n---\n# Source: app/templates/l.yaml\n\
                       kind: ConfigMap\nmetadata:\n  generateName: gen-\n"
                .into(),
            ..Release::default()
        };
        assert_eq!(unnamed(&record, std::slice::from_ref(&named)), None);
        let why = unnamed(&record, &[named, generated]).unwrap();
        let start = "missing metadata.name in object ConfigMap of app/templates/l.yaml: ";
        assert!(why.starts_with(start), "{why}");
    }

    #[test]
    fn hook_without_a_name_is_told_with_its_template() {
        let hook = Hook {
            name: String::new(),
            kind: "Job".into(),
            path: "app/templates/migrate.yaml".into(),
            manifest: String::new(),
            events: Vec::new(),
            weight: 0,
            delete_policies: Vec::new(),
            output_log_policies: Vec::new(),
        };
        let record = Release {
            hooks: vec![HookRecord::from(hook)],
            ..Release::default()
        };
        let why = unnamed(&record, &[]).unwrap();
        assert!(why.contains("Job of app/templates/migrate.yaml"), "{why}");
    }
}
