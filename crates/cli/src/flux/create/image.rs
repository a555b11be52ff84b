//! `everflow create image`

use clap::Subcommand;
use everflow_fetch::oci::Repository;
use everflow_json::{Value, json};
use everflow_time::Duration;

use super::{Creation, Spec, named, work};
use crate::exit::Failure;
use crate::flux::go_flags::go_duration;
use crate::flux::kinds;

/// `everflow create image`
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(subcommand)]
    what: Option<What>,
}

#[derive(Subcommand, Debug)]
enum What {
    /// Create or update an ImagePolicy
    Policy(PolicyArgs),
    /// Create or update an ImageRepository
    Repository(RepositoryArgs),
    /// Create or update an ImageUpdateAutomation
    Update(UpdateArgs),
}

pub fn run(args: &Args, creation: &Creation<'_>) -> Result<(), Failure> {
    match &args.what {
        None => Err(Failure::help("create image")),
        Some(What::Policy(args)) => policy(args, creation),
        Some(What::Repository(args)) => repository(args, creation),
        Some(What::Update(args)) => update(args, creation),
    }
}

/// `everflow create image repository`
#[derive(clap::Args, Debug)]
struct RepositoryArgs {
    /// The name of the object
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The image, without a tag
    #[arg(long, value_name = "IMAGE", default_value = "")]
    image: String,
    /// The Secret with credentials
    #[arg(long, value_name = "NAME", default_value = "")]
    secret_ref: String,
    /// The Secret with certificates
    #[arg(long, value_name = "NAME", default_value = "")]
    cert_ref: String,
    /// How long scanning may take
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = go_duration)]
    scan_timeout: Duration,
}

fn repository(args: &RepositoryArgs, creation: &Creation<'_>) -> Result<(), Failure> {
    let name = named(&args.name)?;
    if args.image.is_empty() {
        return Err(work("an image repository (--image) is required"));
    }
    Repository::parse(&format!("oci://{}", args.image))
        .map_err(|why| work(format!("unable to parse image value: {why}")))?;
    let spec = Spec::default()
        .text("image", &args.image)
        .value("interval", creation.interval())
        .duration("timeout", args.scan_timeout)
        .local("secretRef", &args.secret_ref)
        .local("certSecretRef", &args.cert_ref);
    let kind = kinds::required("ImageRepository")?;
    let object = creation.object(kind, name, spec.0)?;
    creation.finish(kind, &object)
}

/// `everflow create image policy`
#[derive(clap::Args, Debug)]
struct PolicyArgs {
    /// The name of the object
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The ImageRepository
    #[arg(long, value_name = "NAME", default_value = "")]
    image_ref: String,
    /// Select the highest version in a range
    #[arg(long, value_name = "RANGE", default_value = "")]
    select_semver: String,
    /// Select alphabetically: asc or desc
    #[arg(long, value_name = "ORDER", default_value = "")]
    select_alpha: String,
    /// Select numerically: asc or desc
    #[arg(long, value_name = "ORDER", default_value = "")]
    select_numeric: String,
    /// Only tags that match
    #[arg(long, value_name = "REGEX", default_value = "")]
    filter_regex: String,
    /// The part of the tag to compare, such as $group
    #[arg(long, value_name = "TEMPLATE", default_value = "")]
    filter_extract: String,
    /// Whether to store the digest: Never, IfNotPresent or Always
    #[arg(long, value_name = "POLICY", default_value = "")]
    reflect_digest: String,
}

fn policy(args: &PolicyArgs, creation: &Creation<'_>) -> Result<(), Failure> {
    let name = named(&args.name)?;
    if args.image_ref.is_empty() {
        return Err(work(
            "the name of an ImageRepository in the namespace is required (--image-ref)",
        ));
    }
    let mut spec = Spec::default()
        .local("imageRepositoryRef", &args.image_ref)
        .value("policy", choice(args)?)
        .object("filterTags", filter(args)?);
    match args.reflect_digest.as_str() {
        "" => {}
        "Never" | "IfNotPresent" | "Always" => {
            spec = spec.text("digestReflectionPolicy", &args.reflect_digest);
        }
        _ => {
            return Err(work(
                "invalid value for --reflect-digest, must be one of 'Never', 'IfNotPresent', \
                 'Always'",
            ));
        }
    }
    // The interval counts only where the digest may change under a tag.
    if args.reflect_digest == "Always" {
        spec = spec.value("interval", creation.interval());
    }
    let kind = kinds::required("ImagePolicy")?;
    let object = creation.object(kind, name, spec.0)?;
    creation.finish(kind, &object)
}

fn choice(args: &PolicyArgs) -> Result<Value, Failure> {
    let ordered = |flag: &str, order: &str| match order {
        "asc" | "desc" => Ok(json!({"order": order})),
        _ => Err(work(format!("--{flag} must be one of [\"asc\", \"desc\"]"))),
    };
    match (
        args.select_semver.as_str(),
        args.select_alpha.as_str(),
        args.select_numeric.as_str(),
    ) {
        ("", "", "") => Err(work(
            "a policy must be provided with either --select-semver, --select-alpha or \
             --select-numeric",
        )),
        (range, "", "") => Ok(json!({"semver": {"range": range}})),
        ("", order, "") => Ok(json!({"alphabetical": ordered("select-alpha", order)?})),
        ("", "", order) => Ok(json!({"numerical": ordered("select-numeric", order)?})),
        _ => Err(work(
            "only one of --select-semver, --select-alpha or --select-numeric can be specified",
        )),
    }
}

fn filter(args: &PolicyArgs) -> Result<Spec, Failure> {
    if args.filter_regex.is_empty() {
        return match args.filter_extract.is_empty() {
            true => Ok(Spec::default()),
            false => Err(work(
                "cannot specify --filter-extract without specifying --filter-regex",
            )),
        };
    }
    Ok(Spec::default()
        .text("pattern", &args.filter_regex)
        .text("extract", &args.filter_extract))
}

/// `everflow create image update`
#[derive(clap::Args, Debug)]
struct UpdateArgs {
    /// The name of the object
    #[arg(value_name = "NAME")]
    name: Option<String>,
    /// The GitRepository
    #[arg(long, value_name = "NAME", default_value = "")]
    git_repo_ref: String,
    /// The namespace of the GitRepository
    #[arg(long, value_name = "NAME", default_value = "")]
    git_repo_namespace: String,
    /// The directory to update
    #[arg(long, value_name = "PATH", default_value = "")]
    git_repo_path: String,
    /// The branch to check out
    #[arg(long, value_name = "NAME", default_value = "")]
    checkout_branch: String,
    /// The branch to push to, if different
    #[arg(long, value_name = "NAME", default_value = "")]
    push_branch: String,
    /// The template of commit messages
    #[arg(long, value_name = "TEMPLATE", default_value = "")]
    commit_template: String,
    /// The author of commits
    #[arg(long, value_name = "NAME", default_value = "")]
    author_name: String,
    /// The email address of the author
    #[arg(long, value_name = "ADDRESS", default_value = "")]
    author_email: String,
    /// The Secret with the key that signs commits
    #[arg(long, value_name = "NAME", default_value = "")]
    signing_key_secret: String,
    /// The type of that key: gpg or ssh
    #[arg(long, value_name = "TYPE", default_value = "")]
    signing_key_type: String,
}

fn update(args: &UpdateArgs, creation: &Creation<'_>) -> Result<(), Failure> {
    let name = named(&args.name)?;
    for (value, missing) in [
        (
            &args.git_repo_ref,
            "a reference to a GitRepository is required (--git-repo-ref)",
        ),
        (
            &args.checkout_branch,
            "the Git repository branch is required (--checkout-branch)",
        ),
        (
            &args.author_name,
            "the author name is required (--author-name)",
        ),
        (
            &args.author_email,
            "the author email is required (--author-email)",
        ),
    ] {
        if value.is_empty() {
            return Err(work(missing));
        }
    }
    match (
        args.signing_key_type.as_str(),
        args.signing_key_secret.as_str(),
    ) {
        ("", _) => {}
        (_, "") => return Err(work("--signing-key-type requires --signing-key-secret")),
        ("gpg" | "ssh", _) => {}
        _ => return Err(work("--signing-key-type must be one of: gpg, ssh")),
    }
    let source = Spec::default()
        .text("kind", "GitRepository")
        .text("name", &args.git_repo_ref)
        .text("namespace", &args.git_repo_namespace);
    let mut commit = Spec::default()
        .value(
            "author",
            json!({"name": args.author_name, "email": args.author_email}),
        )
        .text("messageTemplate", &args.commit_template);
    if !args.signing_key_secret.is_empty() {
        let key = Spec::default()
            .local("secretRef", &args.signing_key_secret)
            .text("type", &args.signing_key_type);
        commit = commit.object("signingKey", key);
    }
    let push = Spec::default().text("branch", &args.push_branch);
    let git = Spec::default()
        .value("checkout", json!({"ref": {"branch": args.checkout_branch}}))
        .object("commit", commit)
        .object("push", push);
    let mut spec = Spec::default()
        .value("interval", creation.interval())
        .object("sourceRef", source)
        .object("git", git);
    if !args.git_repo_path.is_empty() {
        let strategy = json!({"path": args.git_repo_path, "strategy": "Setters"});
        spec = spec.value("update", strategy);
    }
    let kind = kinds::required("ImageUpdateAutomation")?;
    let object = creation.object(kind, name, spec.0)?;
    creation.finish(kind, &object)
}
