use std::time::Duration;

use everflow_env::{Env, MemoryDialer};

use super::*;
use crate::Secret;
use crate::archive::Algorithm;
use crate::testing::{answer, serve};

const INDEX: &str = "apiVersion: v1\nentries:\n  app:\n  - name: app\n    version: 1.0.0\n    urls: [app-1.0.0.tgz]\n";

fn client(env: &Env, url: &str, change: impl FnOnce(&mut Repository)) -> HelmClient {
    let mut repository = Repository::new(Url::parse(url).unwrap());
    change(&mut repository);
    HelmClient::new(env, repository).unwrap()
}

fn soon(env: &Env) -> Deadline {
    Deadline::after(&env.clock, Duration::from_secs(5))
}

#[tokio::test(start_paused = true)]
async fn an_index_is_fetched_loaded_and_searched() {
    let dialer = MemoryDialer::new();
    serve(&dialer, "charts.example", 80, |seen| {
        assert!(seen.line().starts_with("GET /a/index.yaml?q=1 "));
        answer("200 OK", "", INDEX.as_bytes())
    });
    let env = Env::simulated(1, dialer);
    let client = client(&env, "http://charts.example/a/?q=1", |_| {});
    let fetched = client
        .fetch_index(Algorithm::Sha256, &soon(&env))
        .await
        .unwrap();
    assert_eq!(fetched.size, INDEX.len() as u64);
    let loaded = fetched.load(Algorithm::Sha256).await.unwrap();
    assert_eq!((loaded.charts, loaded.versions, loaded.dropped), (1, 1, 0));
    assert!(loaded.file_name().starts_with("index-"));
    let found = client.versions_in(&loaded.path(), "app").await.unwrap();
    assert_eq!(found.unwrap()[0].urls, ["app-1.0.0.tgz"]);
    let path = loaded.path();
    drop(loaded);
    assert!(client.versions_in(&path, "app").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn failures_are_named_as_flux_names_them() {
    let dialer = MemoryDialer::new();
    serve(&dialer, "missing", 80, |_| answer("404 Not Found", "", b""));
    serve(&dialer, "large", 80, |_| {
        answer("200 OK", "", &[b'a'; 2000])
    });
    serve(&dialer, "broken", 80, |_| answer("200 OK", "", b"a: [\n"));
    let _silent = dialer.listen("silent", 80);
    let env = Env::simulated(1, dialer);
    let fetch = async |url: &str| {
        let client = client(&env, url, |repository| repository.helm.index = 1000);
        client.fetch_index(Algorithm::Sha256, &soon(&env)).await
    };
    let error = fetch("http://missing/x").await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "failed to cache index to temporary file: failed to fetch http://missing/x/index.yaml : 404 Not Found"
    );
    assert_eq!(error.reason(), "Failed");
    assert_eq!(
        fetch("http://large").await.unwrap_err().to_string(),
        "failed to cache index to temporary file: index exceeds the maximum index file size of 1000 bytes"
    );
    assert_eq!(
        fetch("http://silent").await.unwrap_err().to_string(),
        "failed to cache index to temporary file: Get \"http://silent/index.yaml\": context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    );
    let broken = fetch("http://broken").await.unwrap();
    let error = broken.load(Algorithm::Sha256).await.unwrap_err();
    assert_eq!(error.reason(), "IndexationFailed");
    assert_eq!(
        error.to_string(),
        "failed to load index: error converting YAML to JSON: yaml: line 1: did not find expected node content"
    );
}

#[tokio::test(start_paused = true)]
async fn credentials_stay_with_the_repository() {
    let env = Env::simulated(1, MemoryDialer::new());
    let secret = |repository: &mut Repository| {
        repository.auth = Some(Auth::Basic {
            username: "user".to_owned(),
            password: Secret::new("pass".to_owned()),
        });
    };
    let sees =
        |client: &HelmClient, url: &str| client.auth_for(&Url::parse(url).unwrap()).is_some();
    let own = client(&env, "https://a.example/charts", secret);
    assert!(sees(&own, "https://a.example/x"));
    assert!(sees(&own, "https://a.example:443/x"));
    for other in [
        "http://a.example/x",
        "https://b.example/x",
        "https://a.example:8443/x",
    ] {
        assert!(!sees(&own, other), "{other}");
    }
    let all = client(&env, "https://a.example/charts", |repository| {
        secret(repository);
        repository.pass_credentials = true;
    });
    assert!(sees(&all, "http://b.example/x"));
    let half = client(&env, "https://a.example/charts", |repository| {
        repository.auth = Some(Auth::Basic {
            username: "user".to_owned(),
            password: Secret::default(),
        });
    });
    assert!(!sees(&half, "https://a.example/x"));
}

mod builds {
    use std::io::Write as _;
    use std::sync::Arc;

    use everflow_env::BoxFuture;
    use everflow_env::disk::{read_all, write_whole};

    use super::*;
    use crate::archive::digest_of;

    /// Repositories by address.
    #[derive(Debug, Default)]
    struct Known(Vec<(String, Arc<dyn ChartSource>)>);

    impl Repositories for Known {
        fn at<'a>(&'a self, url: &'a str) -> BoxFuture<'a, Result<Arc<dyn ChartSource>, Error>> {
            let found = self.0.iter().find(|(known, _)| known == url);
            let found = found.map(|(_, source)| source.clone());
            Box::pin(async move { found.ok_or_else(|| Error::Url("not known".to_owned())) })
        }
    }

    fn put(env: &Env, path: &str, text: &str) {
        write_whole(&*env.disk, path, text.as_bytes()).unwrap();
    }

    fn packed(files: &[(&str, &[u8])]) -> Vec<u8> {
        let mut builder = tar::Builder::new(Vec::new());
        for (name, data) in files {
            let mut header = tar::Header::new_gnu();
            header.set_size(data.len() as u64);
            header.set_mode(0o644);
            header.set_mtime(1_700_000_000);
            // Set by hand: the library refuses names that lead out of the archive.
            let field = &mut header.as_gnu_mut().unwrap().name;
            field[..name.len()].copy_from_slice(name.as_bytes());
            header.set_cksum();
            builder.append(&header, *data).unwrap();
        }
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(&builder.into_inner().unwrap()).unwrap();
        gzip.finish().unwrap()
    }

    fn contents(env: &Env, build: &Build) -> Vec<(String, String)> {
        let ChartArchive::New {
            path, digest, size, ..
        } = &build.archive
        else {
            return Vec::new();
        };
        let bytes = read_all(&*env.disk, path, 1 << 20).unwrap();
        assert_eq!(&digest_of(Algorithm::Sha256, &bytes), digest);
        assert_eq!(bytes.len() as u64, *size);
        let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(&bytes[..]));
        let entries = archive.entries().unwrap();
        entries
            .map(|entry| {
                let mut entry = entry.unwrap();
                let path = entry.path().unwrap().to_str().unwrap().to_owned();
                let mut text = String::new();
                std::io::Read::read_to_string(&mut entry, &mut text).unwrap();
                (path, text)
            })
            .collect()
    }

    async fn local(
        env: &Env,
        path: &str,
        known: &Known,
        options: BuildOptions,
    ) -> Result<Build, Error> {
        let chart = LocalChart {
            root: "tmp/tree".to_owned(),
            path: path.to_owned(),
        };
        let deadline = soon(env);
        let building = build_local(env, chart, known, options, &deadline);
        // Controllers run builds on any thread.
        fn any_thread<T: Send>(future: T) -> T {
            future
        }
        any_thread(building).await
    }

    fn tree() -> Env {
        let env = Env::simulated(1, MemoryDialer::new());
        put(
            &env,
            "tmp/tree/app/Chart.yaml",
            "name: app\nversion: 0.1.0\napiVersion: v2\ndependencies:\n- {name: lib, version: 0.x, repository: 'file://../lib', alias: other}\n",
        );
        put(&env, "tmp/tree/app/values.yaml", "a: 1\n");
        put(&env, "tmp/tree/app/secret.txt", "x");
        put(&env, "tmp/tree/app/.helmignore", "secret.txt\n");
        put(
            &env,
            "tmp/tree/lib/Chart.yaml",
            "name: lib\nversion: 0.2.0\n",
        );
        put(&env, "tmp/tree/extra.yaml", "a: 2\n");
        env
    }

    #[tokio::test(start_paused = true)]
    async fn a_directory_is_packaged_with_its_neighbours() {
        let env = tree();
        let options = || BuildOptions {
            version_metadata: "abc.7".to_owned(),
            values_files: vec!["app/values.yaml".to_owned(), "extra.yaml".to_owned()],
            ..BuildOptions::default()
        };
        let build = local(&env, "./app", &Known::default(), options())
            .await
            .unwrap();
        assert_eq!(
            build.summary(),
            "packaged 'app' chart with version '0.1.0+abc.7' and merged values files [app/values.yaml extra.yaml]"
        );
        assert_eq!(build.file_name(), "app-0.1.0+abc.7.tgz");
        assert_eq!(build.resolved_dependencies, 1);
        let files = contents(&env, &build);
        let names: Vec<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
        assert_eq!(
            names,
            [
                "app/Chart.yaml",
                "app/values.yaml",
                "app/.helmignore",
                "app/charts/other/Chart.yaml"
            ]
        );
        assert_eq!(files[1].1, "a: 2\n");
        assert!(files[3].1.contains("name: other\n"));
        // The same again, byte for byte.
        let again = local(&env, "app/", &Known::default(), options())
            .await
            .unwrap();
        let digest = |build: &Build| match &build.archive {
            ChartArchive::New { digest, .. } => digest.clone(),
            ChartArchive::Cached { .. } => unreachable!(),
        };
        assert_eq!(digest(&build), digest(&again));
        // What is stored already is kept.
        let ChartArchive::New { path, .. } = &build.archive else {
            unreachable!()
        };
        let kept = BuildOptions {
            cached: Some(path.clone()),
            ..options()
        };
        let kept = local(&env, "app", &Known::default(), kept).await.unwrap();
        assert!(!kept.is_new());
        assert_eq!(kept.summary(), build.summary());
    }

    #[tokio::test(start_paused = true)]
    async fn chart_directory_errors_match_flux() {
        let env = tree();
        put(&env, "tmp/tree/bad/Chart.yaml", "a: [\n");
        put(&env, "tmp/tree/ver/Chart.yaml", "name: a\nversion: nope\n");
        put(
            &env,
            "tmp/tree/alias/Chart.yaml",
            "name: a\nversion: 1.0.0\ndependencies: [{name: b, version: 1.0.0, repository: '@stable'}]\napiVersion: v2\n",
        );
        put(
            &env,
            "tmp/tree/away/Chart.yaml",
            "name: a\nversion: 1.0.0\ndependencies: [{name: b, version: 1.0.0, repository: 'file://../nope'}]\napiVersion: v2\n",
        );
        put(
            &env,
            "tmp/tree/range/Chart.yaml",
            "name: a\nversion: 1.0.0\ndependencies: [{name: lib, version: 9.x, repository: 'file://../lib'}]\napiVersion: v2\n",
        );
        put(&env, "tmp/tree/big/Chart.yaml", "name: a\nversion: 1.0.0\n");
        put(&env, "tmp/tree/big/large.bin", &"x".repeat(2000));
        put(
            &env,
            "tmp/tree/bare/Chart.yaml",
            "name: a\nversion: 1.0.0\n",
        );
        put(&env, "tmp/tree/not.tgz", "no archive at all");
        put(
            &env,
            "tmp/outside/Chart.yaml",
            "name: out\nversion: 1.0.0\n",
        );
        let error = async |path: &str, values: &[&str]| {
            let options = BuildOptions {
                values_files: values.iter().map(|file| (*file).to_owned()).collect(),
                limits: HelmLimits {
                    file: 1000,
                    ..HelmLimits::default()
                },
                ..BuildOptions::default()
            };
            let error = local(&env, path, &Known::default(), options)
                .await
                .unwrap_err();
            assert!(Reason::of(&error).is_some());
            error.to_string()
        };
        for (path, expected) in [
            (
                "nope",
                "invalid chart reference: stat /nope: no such file or directory",
            ),
            (
                ".",
                "invalid chart reference: open /Chart.yaml: no such file or directory",
            ),
            (
                "bad",
                "invalid chart reference: cannot load 'Chart.yaml': error converting YAML to JSON: yaml: line 1: did not find expected node content",
            ),
            (
                "ver",
                "invalid chart reference: validation: chart.metadata.version \"nope\" is invalid",
            ),
            (
                "alias",
                "dependency build error: failed to add remote dependency 'b': aliased repository dependency is not supported: @stable/",
            ),
            (
                "away",
                "dependency build error: failed to add local dependency 'b': no chart found at '/nope' (reference 'file://../nope')",
            ),
            (
                "range",
                "dependency build error: failed to add local dependency 'lib': can't get a valid version for constraint '9.x'",
            ),
            (
                "big",
                "chart package error: failed to load files from /big: cannot load file large.bin as file size (2000) exceeds limit (1000)",
            ),
            ("not.tgz", "invalid chart reference: gzip: invalid header"),
            (
                "",
                "invalid chart reference: no path set for local chart reference",
            ),
            (
                "/app",
                "invalid chart reference: local chart reference path is expected to be relative",
            ),
            (
                "../outside",
                "invalid chart reference: stat /outside: no such file or directory",
            ),
        ] {
            assert_eq!(error(path, &[]).await, expected);
        }
        assert_eq!(
            error("app", &["nope.yaml"]).await,
            "values files merge error: no values file found at path '/nope.yaml' (reference 'nope.yaml')"
        );
        assert_eq!(
            error("bare", &["extra.yaml"]).await,
            "values files merge error: failed to locate values file: values.yaml"
        );
    }

    const CHART: &[(&str, &[u8])] = &[
        ("app/Chart.yaml", b"name: app\nversion: 1.0.0\n"),
        ("app/values.yaml", b"a: 1\n"),
        ("app/prod.yaml", b"b: 2\n"),
    ];

    /// A repository with one chart, and the requests that were made.
    fn repository(chart: Vec<u8>) -> (Env, HttpCharts) {
        let dialer = MemoryDialer::new();
        serve(&dialer, "charts.example", 80, move |seen| {
            match seen.line().split(' ').nth(1).unwrap_or_default() {
                "/index.yaml" => answer("200 OK", "", INDEX.as_bytes()),
                "/app-1.0.0.tgz" => answer("200 OK", "", &chart),
                _ => answer("404 Not Found", "", b""),
            }
        });
        let env = Env::simulated(1, dialer);
        let client = client(&env, "http://charts.example/", |_| {});
        (env, HttpCharts::new(client, None))
    }

    async fn remote(
        env: &Env,
        source: &HttpCharts,
        version: &str,
        options: BuildOptions,
    ) -> Result<Build, Error> {
        build_remote(env, source, "app", version, options, &soon(env)).await
    }

    #[tokio::test(start_paused = true)]
    async fn a_chart_is_pulled_as_it_is_or_packaged_anew() {
        let bytes = packed(CHART);
        let (env, source) = repository(bytes.clone());
        let build = remote(&env, &source, "*", BuildOptions::default())
            .await
            .unwrap();
        assert_eq!(build.summary(), "pulled 'app' chart with version '1.0.0'");
        let ChartArchive::New { path, .. } = &build.archive else {
            unreachable!()
        };
        assert_eq!(read_all(&*env.disk, path, 1 << 20).unwrap(), bytes);
        let options = BuildOptions {
            version_metadata: "4".to_owned(),
            values_files: vec![
                "values.yaml".to_owned(),
                "prod.yaml".to_owned(),
                "x.yaml".to_owned(),
            ],
            ignore_missing_values_files: true,
            ..BuildOptions::default()
        };
        let build = remote(&env, &source, "1.x", options.clone()).await.unwrap();
        assert_eq!(
            build.summary(),
            "packaged 'app' chart with version '1.0.0+4' and merged values files [values.yaml prod.yaml]"
        );
        assert_eq!(contents(&env, &build)[1].1, "a: 1\nb: 2\n");
        let strict = BuildOptions {
            ignore_missing_values_files: false,
            ..options
        };
        assert_eq!(
            remote(&env, &source, "", strict)
                .await
                .unwrap_err()
                .to_string(),
            "values files merge error: failed to merge chart values: no values file found at path 'x.yaml'"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn chart_repository_errors_match_flux() {
        let (env, source) = repository(packed(&[("app/../../x", b"x"), ("app/Chart.yaml", b"")]));
        let error = async |version: &str| {
            let error = remote(&env, &source, version, BuildOptions::default()).await;
            error.unwrap_err().to_string()
        };
        assert_eq!(
            error("9.x").await,
            "invalid chart reference: failed to get chart version for remote reference: no 'app' chart with version matching '9.x' found"
        );
        assert_eq!(
            error("nope").await,
            "invalid chart reference: failed to get chart version for remote reference: improper constraint: \"nope\""
        );
        assert_eq!(
            error("*").await,
            "chart pull error: failed to load chart metadata from written chart: chart illegally references parent directory"
        );
        let gone = build_remote(
            &env,
            &source,
            "other",
            "*",
            BuildOptions::default(),
            &soon(&env),
        )
        .await;
        assert_eq!(
            gone.unwrap_err().to_string(),
            "invalid chart reference: failed to get chart version for remote reference: no chart name found"
        );
        let (env, _) = repository(packed(CHART));
        let mut small = Repository::new(Url::parse("http://charts.example/").unwrap());
        small.helm.chart = 10;
        let large = HttpCharts::new(HelmClient::new(&env, small).unwrap(), None);
        assert_eq!(
            remote(&env, &large, "*", BuildOptions::default())
                .await
                .unwrap_err()
                .to_string(),
            "chart pull error: failed to download chart for remote reference: size of chart 'app-1.0.0.tgz' exceeds '10' bytes limit"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn dependencies_come_from_repositories() {
        let (env, source) = repository(packed(CHART));
        put(
            &env,
            "tmp/tree/web/Chart.yaml",
            "name: web\nversion: 1.0.0\napiVersion: v2\ndependencies:\n- {name: app, version: 1.x, repository: 'http://charts.example'}\n- {name: app, version: 1.0.0, repository: 'http://charts.example/', alias: two}\n",
        );
        let known = Known(vec![(
            "http://charts.example/".to_owned(),
            Arc::new(source),
        )]);
        let build = local(&env, "web", &known, BuildOptions::default())
            .await
            .unwrap();
        assert_eq!(build.resolved_dependencies, 2);
        let names: Vec<String> = contents(&env, &build)
            .into_iter()
            .map(|(name, _)| name)
            .collect();
        assert!(names.contains(&"web/charts/app/values.yaml".to_owned()));
        assert!(names.contains(&"web/charts/two/prod.yaml".to_owned()));
        let none = local(&env, "web", &Known::default(), BuildOptions::default()).await;
        assert_eq!(
            none.unwrap_err().to_string(),
            "dependency build error: failed to add remote dependency 'app': failed to get chart repository for URL 'http://charts.example/': not known"
        );
    }

    #[tokio::test]
    async fn the_real_helm_reads_what_we_package() {
        let Some(helm) = everflow_corpus::real::program("helm") else {
            return;
        };
        let env = tree();
        let template = "kind: ConfigMap\napiVersion: v1\nmetadata: {name: '{{ .Chart.Name }}'}\ndata: {a: '{{ .Values.a }}', v: '{{ .Chart.Version }}'}\n";
        // Without an alias: helm's lint does not know the name that Flux gives to the copy.
        put(
            &env,
            "tmp/tree/app/Chart.yaml",
            "name: app\nversion: 0.1.0\napiVersion: v2\ndependencies:\n- {name: lib, version: 0.x, repository: 'file://../lib'}\n",
        );
        put(&env, "tmp/tree/app/templates/cm.yaml", template);
        put(&env, "tmp/tree/lib/templates/cm.yaml", template);
        put(&env, "tmp/tree/lib/values.yaml", "a: inner\n");
        let options = BuildOptions {
            version_metadata: "7".to_owned(),
            values_files: vec!["extra.yaml".to_owned()],
            ..BuildOptions::default()
        };
        let build = local(&env, "app", &Known::default(), options)
            .await
            .unwrap();
        let ChartArchive::New { path, .. } = &build.archive else {
            unreachable!()
        };
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(build.file_name());
        std::fs::write(&file, read_all(&*env.disk, path, 1 << 20).unwrap()).unwrap();
        let run = |arguments: &[&str]| {
            let output = std::process::Command::new(&helm)
                .args(arguments)
                .arg(&file)
                .env("HOME", directory.path())
                .output()
                .unwrap();
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            let errors = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{arguments:?}: {text}{errors}");
            text
        };
        run(&["lint"]);
        let rendered = run(&["template", "release"]);
        for line in [
            "data: {a: '2', v: '0.1.0+7'}",
            "metadata: {name: 'lib'}",
            "a: 'inner'",
        ] {
            assert!(rendered.contains(line), "{line} in {rendered}");
        }
        assert!(run(&["show", "chart"]).contains("version: 0.1.0+7"));
    }
}
