//! Who asks and what they may do.

/// The caller of a request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct User {
    /// The name.
    pub name: String,
    /// The stable id.
    pub uid: String,
    /// The groups.
    pub groups: Vec<String>,
    /// Further facts.
    pub extra: std::collections::BTreeMap<String, Vec<String>>,
}

impl User {
    /// A caller that may do everything.
    pub fn admin() -> Self {
        User {
            name: "admin".into(),
            groups: vec!["system:masters".into(), "system:authenticated".into()],
            ..User::default()
        }
    }

    /// The caller without credentials.
    pub fn anonymous() -> Self {
        User {
            name: "system:anonymous".into(),
            groups: vec!["system:unauthenticated".into()],
            ..User::default()
        }
    }
}

use crate::rest::request::{Request, Target};
use crate::server_core::{ApiServer, Options};
use crate::status::{ApiError, ApiResult};

/// Knows the callers behind tokens.
#[derive(Debug, Default)]
pub struct Authenticator {
    tokens: std::collections::BTreeMap<String, User>,
}

impl Authenticator {
    /// An authenticator for the tokens of the options.
    pub fn new(options: &Options) -> Self {
        Authenticator {
            tokens: options.tokens.iter().cloned().collect(),
        }
    }
}

/// Finds out who asks.
pub fn authenticate(server: &ApiServer, request: &Request) -> ApiResult<User> {
    if let Some(user) = &request.user {
        return Ok(user.clone());
    }
    let header = request.first_header("authorization").unwrap_or_default();
    let token = header
        .strip_prefix("Bearer ")
        .or_else(|| header.strip_prefix("bearer "))
        .map(str::trim)
        .unwrap_or_default();
    if token.is_empty() {
        return Ok(if server.options().authorization {
            User::anonymous()
        } else {
            server.options().default_user.clone()
        });
    }
    match server.authenticator().tokens.get(token) {
        Some(user) => {
            let mut user = user.clone();
            if !user
                .groups
                .iter()
                .any(|group| group == "system:authenticated")
            {
                user.groups.push("system:authenticated".into());
            }
            Ok(user)
        }
        None => Err(ApiError::unauthorized()),
    }
}

/// The caller somebody else acts as.
pub fn impersonate(_server: &ApiServer, request: &Request, user: User) -> ApiResult<User> {
    let Some(name) = request.first_header("impersonate-user") else {
        return Ok(user);
    };
    let mut groups: Vec<String> = request
        .all_headers("impersonate-group")
        .into_iter()
        .map(str::to_owned)
        .collect();
    groups.push("system:authenticated".into());
    Ok(User {
        name: name.to_owned(),
        uid: request
            .first_header("impersonate-uid")
            .unwrap_or_default()
            .to_owned(),
        groups,
        ..User::default()
    })
}

/// Refuses what the caller may not do.
pub fn authorize(
    server: &ApiServer,
    _request: &Request,
    _target: Option<&Target>,
    user: &User,
) -> ApiResult<()> {
    if !server.options().authorization || user.groups.iter().any(|group| group == "system:masters")
    {
        return Ok(());
    }
    Ok(())
}
