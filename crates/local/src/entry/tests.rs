//! Places to begin.

use std::sync::Arc;

use everflow_env::disk::write_whole;
use everflow_env::{Disk, MemoryDisk};

use super::*;

fn tree(files: &[(&str, &str)]) -> Tree {
    let disk = MemoryDisk::new();
    for (path, text) in files {
        write_whole(&disk, path, text.as_bytes()).unwrap();
    }
    Tree::new(Arc::new(disk) as Arc<dyn Disk>)
}

fn sync(path: &str) -> String {
    format!(
        "apiVersion: source.toolkit.fluxcd.io/v1\nkind: GitRepository\nmetadata:\n  name: flux-system\n  namespace: flux-system\nspec:\n  url: ssh://git@example.com/org/fleet\n---\napiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata:\n  name: flux-system\n  namespace: flux-system\nspec:\n  path: {path}\n  sourceRef:\n    kind: GitRepository\n    name: flux-system\n"
    )
}

fn directories(found: &[Entry]) -> Vec<&str> {
    found.iter().map(|entry| &*entry.directory).collect()
}

#[test]
fn sync_manifests_come_before_all_else() {
    let staging = sync("./clusters/staging/");
    let production = sync("clusters/production");
    let tree = tree(&[
        ("clusters/staging/flux-system/gotk-sync.yaml", &staging),
        (
            "clusters/production/flux-system/gotk-sync.yaml",
            &production,
        ),
        ("clusters/other/a.yaml", "a: 1"),
        ("kustomization.yaml", "resources: []"),
    ]);
    let found = find(&tree, &tree.contents().unwrap(), None).unwrap();
    assert_eq!(
        directories(&found),
        ["clusters/production", "clusters/staging"]
    );
    let error = choose(&tree, &tree.contents().unwrap(), None, None).unwrap_err();
    assert_eq!(error.reason(), "EntryAmbiguous");
    assert!(error.to_string().contains("--entry"), "{error}");
    let chosen = choose(
        &tree,
        &tree.contents().unwrap(),
        Some("./clusters/staging"),
        None,
    )
    .unwrap();
    assert_eq!(chosen.objects.len(), 2);
    assert_eq!(chosen.source, ("flux-system".into(), "flux-system".into()));
}

#[test]
fn a_flux_instance_names_its_path() {
    let instance = "apiVersion: fluxcd.controlplane.io/v1\nkind: FluxInstance\nmetadata:\n  name: flux\n  namespace: flux-system\nspec:\n  sync:\n    kind: OCIRepository\n    url: oci://ghcr.io/org/fleet\n    ref: latest\n    path: clusters/a\n";
    let tree = tree(&[("clusters/a/flux/instance.yaml", instance)]);
    let entry = choose(&tree, &tree.contents().unwrap(), None, None).unwrap();
    assert_eq!(entry.directory, "clusters/a");
    assert_eq!(entry.objects[1]["kind"], "OCIRepository");
    assert_eq!(entry.objects[1]["spec"]["ref"]["tag"], "latest");
}

#[test]
fn a_flux_instance_whose_path_is_a_variable() {
    let instance = |path: &str| {
        format!(
            "apiVersion: fluxcd.controlplane.io/v1\nkind: FluxInstance\nmetadata: {{name: flux}}\nspec:\n  sync:\n    path: \"{path}\"\n"
        )
    };
    let settings = |path: &str| {
        format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: settings}}\ndata:\n  FLUX_PATH: {path}\n"
        )
    };
    let (one, two) = (settings("flux/one"), settings("./flux/two"));
    let found = |instance: &str| {
        let tree = tree(&[
            (".github/workflow.yaml", "a: 1"),
            ("apps/flux.yaml", instance),
            ("flux/one/settings.yaml", &one),
            ("flux/two/settings.yaml", &two),
        ]);
        let found = find(&tree, &tree.contents().unwrap(), None).unwrap();
        directories(&found).join(" ")
    };
    assert_eq!(found(&instance("${FLUX_PATH}")), "flux/one flux/two");
    assert_eq!(found(&instance("${FLUX_PATH:=apps}")), "flux/one flux/two");
    // Nobody says what this one is.
    assert_eq!(found(&instance("flux/${CLUSTER}")), "flux/one flux/two");
    assert_eq!(found(&instance("${OTHER}")), "apps flux");
}

#[test]
fn clusters_then_the_root() {
    let both = tree(&[("clusters/a/x.yaml", "a: 1"), ("clusters/b/x.yaml", "a: 1")]);
    assert_eq!(
        directories(&find(&both, &both.contents().unwrap(), None).unwrap()),
        ["clusters/a", "clusters/b"]
    );
    let bare = tree(&[("README.md", "hello")]);
    let lone = tree(&[("kustomization.yaml", "resources: []")]);
    assert_eq!(
        directories(&find(&lone, &lone.contents().unwrap(), None).unwrap()),
        [""]
    );
    assert_eq!(
        find(&bare, &bare.contents().unwrap(), None)
            .unwrap_err()
            .reason(),
        "NothingFound"
    );
    let missing = choose(&lone, &lone.contents().unwrap(), Some("nope"), None).unwrap_err();
    assert_eq!(missing.reason(), "EntryNotFound");
}

#[test]
fn kustomizations_that_no_other_deploys() {
    let of = |name: &str, path: &str| sync(path).replace("flux-system", name);
    let cluster = of("cluster", "./kubernetes/apps");
    let app = of("app", "./kubernetes/apps/web/app");
    let hidden = of("old", "./old");
    let tree = tree(&[
        ("kubernetes/flux/cluster/ks.yaml", &cluster),
        ("kubernetes/apps/web/ks.yaml", &app),
        (".archive/old/ks.yaml", &hidden),
    ]);
    assert_eq!(
        directories(&find(&tree, &tree.contents().unwrap(), None).unwrap()),
        ["kubernetes/flux/cluster"]
    );
}

fn of(name: &str, path: &str) -> String {
    sync(path).replace("flux-system", name)
}

fn alone(name: &str, path: &str) -> String {
    let both = of(name, path);
    both.split_once("---\n").unwrap().1.to_owned()
}

#[test]
fn values_of_a_chart_name_the_path_too() {
    let values = "instance:\n  sync:\n    kind: GitRepository\n    path: k/flux/cluster\n";
    let release = format!(
        "apiVersion: helm.toolkit.fluxcd.io/v2\nkind: HelmRelease\nmetadata: {{name: flux-instance}}\nspec:\n  values:\n    {}\n",
        values.trim_end().replace('\n', "\n    ")
    );
    for (file, text) in [("k/flux/values.yaml", values), ("k/flux/hr.yaml", &release)] {
        let tree = tree(&[(file, text), ("k/flux/cluster/x.yaml", "a: 1")]);
        let entry = choose(&tree, &tree.contents().unwrap(), None, None).unwrap();
        assert_eq!(entry.directory, "k/flux/cluster", "{file}");
    }
    let tree = tree(&[
        (
            "k/flux/values.yaml",
            "instance: {sync: {path: clusters/one}}\n",
        ),
        ("published/clusters/one/x.yaml", "a: 1"),
    ]);
    let error = choose(&tree, &tree.contents().unwrap(), None, None).unwrap_err();
    assert_eq!(error.reason(), "OtherRoot");
    assert!(error.to_string().contains("PATH/published"), "{error}");
}

#[test]
fn sources_that_nobody_defines_are_made() {
    let apps = alone("apps", "./apps").replace("    name: apps", "    name: home");
    let tree = tree(&[("cluster/apps.yaml", &apps), ("apps/a.yaml", "a: 1")]);
    let entry = choose(&tree, &tree.contents().unwrap(), None, None).unwrap();
    assert_eq!(entry.directory, "cluster");
    assert_eq!(entry.also, [("apps".to_owned(), "home".to_owned())]);
    let made = |object: &&Value| view::name(object) == "home";
    assert_eq!(entry.objects.iter().filter(made).count(), 1);
}

#[test]
fn directory_used_as_a_resource_is_no_entry() {
    let files = [
        (
            "clusters-of/one/flux/kustomization.yaml",
            "resources: [../../../deploy/web/ks.yaml, ../../../deploy/db]\n".to_owned(),
        ),
        ("deploy/web/ks.yaml", alone("web", "./deploy/web/app")),
        ("deploy/web/app/a.yaml", "a: 1".to_owned()),
        (
            "deploy/db/kustomization.yaml",
            "resources: [ks.yaml]\n".to_owned(),
        ),
        ("deploy/db/ks.yaml", alone("db", "./deploy/db/app")),
        ("deploy/db/app/a.yaml", "a: 1".to_owned()),
        (
            "parts/x/kustomization.yaml",
            "kind: Component\nresources: [ks.yaml]\n".to_owned(),
        ),
        ("parts/x/ks.yaml", alone("x", "./deploy/db/app")),
        ("archive/old/ks.yaml", alone("old", "./deploy/db/app")),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, &**text)).collect();
    let tree = tree(&files);
    assert_eq!(
        directories(&find(&tree, &tree.contents().unwrap(), None).unwrap()),
        ["clusters-of/one/flux"]
    );
}

#[test]
fn overlays_that_no_other_uses() {
    let tree = tree(&[
        ("web/base/kustomization.yaml", "resources: [a.yaml]\n"),
        ("web/base/a.yaml", "a: 1"),
        ("web/staging/kustomization.yaml", "resources: [../base]\n"),
        (
            "web/production/kustomization.yaml",
            "resources: [../base]\n",
        ),
    ]);
    assert_eq!(
        directories(&find(&tree, &tree.contents().unwrap(), None).unwrap()),
        ["web/production", "web/staging"]
    );
}

fn found(files: &[(&str, &str)]) -> Vec<String> {
    let tree = tree(files);
    let found = find(&tree, &tree.contents().unwrap(), None).unwrap();
    found.into_iter().map(|entry| entry.directory).collect()
}

#[test]
fn kustomizations_that_deploy_each_other_in_a_circle() {
    let cluster = alone("cluster", "./k/one/cluster");
    let again = alone("again", "./k/one/cluster");
    let apps = alone("apps", "./k/one/apps");
    let web = alone("web", "./k/one/apps/web/app");
    let files = [
        (
            "k/one/cluster/kustomization.yaml",
            "resources: [config/cluster.yaml, again.yaml, apps.yaml]\n",
        ),
        ("k/one/cluster/config/cluster.yaml", &*cluster),
        ("k/one/cluster/again.yaml", &*again),
        ("k/one/cluster/apps.yaml", &*apps),
        (
            "k/one/apps/web/kustomization.yaml",
            "resources: [ks.yaml]\n",
        ),
        ("k/one/apps/web/ks.yaml", &*web),
        ("k/one/apps/web/app/a.yaml", "a: 1"),
    ];
    assert_eq!(found(&files), ["k/one/cluster"]);
}

#[test]
fn a_kustomization_without_resources_deploys_nothing_below() {
    let parts = alone("parts", "./k");
    let web = alone("web", "./k/apps/web");
    let files = [
        ("k/kustomization.yaml", "resources: []\n"),
        ("k/clusters/one/web.yaml", &*web),
        ("k/clusters/one/parts.yaml", &*parts),
        ("k/apps/web/a.yaml", "a: 1"),
    ];
    assert_eq!(found(&files), ["k/clusters/one"]);
}

#[test]
fn a_patch_says_what_flux_itself_deploys() {
    let base = alone("flux-system", "./clusters/${ENVIRONMENT}/${CLUSTER}")
        + "  postBuild: {substitute: {NAMESPACE: flux-system}}\n";
    let patch = "apiVersion: kustomize.toolkit.fluxcd.io/v1\nkind: Kustomization\nmetadata: {name: flux-system}\nspec:\n  path: ./clusters/test/00\n  postBuild: {substitute: {ENVIRONMENT: test}}\n";
    let tree = tree(&[
        ("apps/flux/base/kustomize.yaml", &*base),
        ("apps/flux/test/00/kustomize.yaml", patch),
        (
            "clusters/test/00/kustomization.yaml",
            "resources: [../base]\n",
        ),
        ("clusters/test/base/kustomization.yaml", "resources: []\n"),
    ]);
    let entry = choose(&tree, &tree.contents().unwrap(), None, None).unwrap();
    assert_eq!(entry.directory, "clusters/test/00");
    let kustomization = entry.objects.last().unwrap();
    let substitute = &kustomization["spec"]["postBuild"]["substitute"];
    assert_eq!(substitute["ENVIRONMENT"], "test");
    assert_eq!(substitute["NAMESPACE"], "flux-system");
    assert_eq!(kustomization["spec"]["sourceRef"]["name"], "flux-system");
}

#[test]
fn the_source_of_all_is_made_even_if_paths_are_put_in_later() {
    let apps = alone("apps", "providers/__PROVIDER__/apps")
        .replace("    name: apps", "    name: flux-system")
        .replace("namespace: apps", "namespace: flux-system")
        .replace("kind: GitRepository", "kind: OCIRepository");
    let tree = tree(&[
        ("clusters/one/apps.yaml", &*apps),
        ("providers/a/apps/a.yaml", "a: 1"),
    ]);
    let entry = choose(&tree, &tree.contents().unwrap(), None, None).unwrap();
    let made = |object: &&Value| object["kind"] == "OCIRepository";
    assert_eq!(entry.objects.iter().filter(made).count(), 1);
}

#[test]
fn paths_that_begin_in_another_directory() {
    let apps = alone("apps", "providers/a/apps");
    let tree = tree(&[
        ("k8s/clusters/one/apps.yaml", &*apps),
        ("k8s/providers/a/apps/a.yaml", "a: 1"),
        ("docs/a.yaml", "a: 1"),
    ]);
    let error = choose(&tree, &tree.contents().unwrap(), None, None).unwrap_err();
    assert_eq!(error.reason(), "OtherRoot");
    assert!(error.to_string().contains("PATH/k8s"), "{error}");
}

#[test]
fn an_invented_kustomization_decrypts_where_there_are_secrets() {
    let secret = "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nsops: {mac: x}\n";
    for (file, decrypts) in [("clusters/one/a.yaml", true), ("other/a.yaml", false)] {
        let tree = tree(&[(file, secret), ("clusters/one/b.yaml", "b: 1")]);
        let entry = choose(&tree, &tree.contents().unwrap(), None, None).unwrap();
        let spec = &entry.objects.last().unwrap()["spec"];
        assert_eq!(spec["decryption"].is_object(), decrypts, "{file}");
    }
}

#[test]
fn files_reached_from_an_entry_are_found() {
    let apps = alone("apps", "./apps/one");
    let tree = tree(&[
        ("clusters/one/apps.yaml", &*apps),
        ("clusters/two/apps.yaml", "a: 1"),
        ("apps/one/kustomization.yaml", "resources: [../base]\n"),
        ("apps/base/kustomization.yaml", "resources: [a.yaml]\n"),
        ("apps/base/a.yaml", "a: 1"),
        ("apps/base/b.yaml", "a: 1"),
    ]);
    let contents = tree.contents().unwrap();
    let reach = Reach::of(&tree, &contents);
    let reached = reach.reached(&tree, &contents, "clusters/one").unwrap();
    for file in [
        "clusters/one/apps.yaml",
        "apps/base/a.yaml",
        "apps/base/kustomization.yaml",
    ] {
        assert!(reached.has(file), "{file}");
    }
    for file in ["clusters/two/apps.yaml", "apps/base/b.yaml"] {
        assert!(!reached.has(file), "{file}");
    }
    let contents = Contents {
        objects: vec![Found {
            path: "clusters/one/apps.yaml".into(),
            object: json!({
                "apiVersion": "kustomize.toolkit.fluxcd.io/v1", "kind": "Kustomization",
                "spec": { "path": "./apps/${CLUSTER}" },
            }),
        }],
        ..contents.clone()
    };
    assert!(reach.reached(&tree, &contents, "clusters/one").is_none());
}

#[test]
fn a_hub_deploys_what_is_in_clusters() {
    let hub = alone("one", "./clusters/one/apps");
    let files = [
        ("hub/one.yaml", &*hub),
        ("clusters/one/apps/a.yaml", "a: 1"),
    ];
    assert_eq!(found(&files), ["hub"]);
    let inside = [
        ("clusters/one/apps.yaml", &*hub),
        ("clusters/one/apps/a.yaml", "a: 1"),
    ];
    assert_eq!(found(&inside), ["clusters/one"]);
}
