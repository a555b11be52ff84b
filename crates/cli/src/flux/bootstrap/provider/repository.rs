//! A repository of a service: made, shared, and given deploy keys.

use std::fmt;

use everflow_json::{Value, json};
use http::Method;

use super::super::work;
use super::api::{Api, encoded};
use crate::exit::Failure;
use crate::flux::say;

/// Whose API is spoken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    Gitea,
    Github,
    Gitlab,
    Bitbucket,
}

/// A repository, and what is to be said of it.
pub struct Repository {
    pub api: Api,
    pub service: Service,
    pub owner: String,
    pub name: String,
    pub personal: bool,
    pub branch: String,
    /// `private`, `internal` or `public`.
    pub visibility: String,
    pub read_write_key: bool,
}

impl fmt::Display for Repository {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.owner, self.name)
    }
}

/// What is written into a repository that is made.
const DESCRIPTION: &str = "The state of a cluster, deployed by Everflow";

impl Repository {
    fn is_private(&self) -> bool {
        self.visibility == "private"
    }

    /// Where the API has it.
    fn path(&self) -> String {
        let (owner, name) = (encoded(&self.owner), encoded(&self.name));
        match self.service {
            Service::Gitea | Service::Github => format!("repos/{owner}/{name}"),
            Service::Gitlab => format!("projects/{}", encoded(&self.to_string())),
            Service::Bitbucket => format!("api/1.0/projects/{}/repos/{name}", self.project()),
        }
    }

    /// The key of a project of Bitbucket; persons have projects of their own.
    fn project(&self) -> String {
        match self.personal {
            true => format!("~{}", encoded(&self.owner)),
            false => encoded(&self.owner),
        }
    }

    /// Makes it where it is not there, and with `reconcile` sets what differs; what the service says of it.
    pub async fn ensure(&self, reconcile: bool) -> Result<Value, Failure> {
        let what = format!("failed to get Git repository \"{self}\"");
        let found = self.api.find(&self.path(), &what).await?;
        let Some(found) = found else {
            let made = self.create().await?;
            say::success(&format!("repository \"{self}\" created"));
            return Ok(made);
        };
        match reconcile && self.differs(&found) {
            false => Ok(found),
            true => {
                let updated = self.update().await?;
                say::success(&format!("repository \"{self}\" reconciled"));
                Ok(updated)
            }
        }
    }

    async fn create(&self) -> Result<Value, Failure> {
        let what = format!("failed to create new Git repository \"{self}\"");
        let (name, branch) = (&self.name, &self.branch);
        let plain = json!({"name": name, "private": self.is_private(), "description": DESCRIPTION});
        let (path, body) = match self.service {
            Service::Gitea | Service::Github => {
                let mut body = plain;
                if self.service == Service::Gitea {
                    body["default_branch"] = json!(branch);
                }
                let path = match self.personal {
                    true => "user/repos".to_owned(),
                    false => format!("orgs/{}/repos", encoded(&self.owner)),
                };
                (path, body)
            }
            Service::Gitlab => {
                let mut body = json!({"name": name, "path": name, "visibility": self.visibility,
                    "description": DESCRIPTION, "default_branch": branch});
                if !self.personal {
                    let group = format!("groups/{}", encoded(&self.owner));
                    let group = self.api.must(Method::GET, &group, None, &what).await?;
                    body["namespace_id"] = group["id"].clone();
                }
                ("projects".to_owned(), body)
            }
            Service::Bitbucket => {
                let body = json!({"name": name, "scmId": "git", "public": !self.is_private(),
                    "description": DESCRIPTION, "defaultBranch": branch});
                (format!("api/1.0/projects/{}/repos", self.project()), body)
            }
        };
        self.api.must(Method::POST, &path, Some(body), &what).await
    }

    fn differs(&self, found: &Value) -> bool {
        match self.service {
            Service::Gitea | Service::Github => {
                found["private"] != self.is_private() || found["default_branch"] != *self.branch
            }
            Service::Gitlab => {
                found["visibility"] != *self.visibility || found["default_branch"] != *self.branch
            }
            Service::Bitbucket => found["public"] == self.is_private(),
        }
    }

    async fn update(&self) -> Result<Value, Failure> {
        let what = format!("failed to reconcile Git repository \"{self}\"");
        let (method, body) = match self.service {
            Service::Gitea | Service::Github => {
                let body = json!({"private": self.is_private(), "default_branch": self.branch});
                (Method::PATCH, body)
            }
            Service::Gitlab => {
                let body = json!({"visibility": self.visibility, "default_branch": self.branch});
                (Method::PUT, body)
            }
            Service::Bitbucket => (Method::PUT, json!({"public": !self.is_private()})),
        };
        self.api.must(method, &self.path(), Some(body), &what).await
    }

    /// Gives teams (`NAME` or `NAME:PERMISSION`) access. What cannot be given is told, and the rest goes on.
    pub async fn share(&self, teams: &[String]) -> Result<(), Failure> {
        if teams.is_empty() || self.personal {
            return Ok(());
        }
        say::action("reconciling repository permissions");
        for team in teams {
            let (name, permission) = team.split_once(':').unwrap_or((team, "maintain"));
            match self.grant(name, permission).await {
                Ok(()) => say::success(&format!("granted {permission:?} permissions to {name:?}")),
                Err(error) => say::failure(&format!(
                    "failed to grant {permission:?} permissions to {name:?}: {error}"
                )),
            }
        }
        say::success("reconciled repository permissions");
        Ok(())
    }

    async fn grant(&self, team: &str, permission: &str) -> Result<(), Failure> {
        let known = ["pull", "triage", "push", "maintain", "admin"];
        let level = known.iter().position(|known| *known == permission);
        let level = level.ok_or_else(|| work(format!("must be one of: {}", known.join(", "))))?;
        let (what, slug) = ("cannot share the repository", encoded(team));
        let (method, path, body) = match self.service {
            Service::Gitea => (Method::PUT, format!("{}/teams/{slug}", self.path()), None),
            Service::Github => {
                let (org, own) = (encoded(&self.owner), self.path());
                let path = format!("orgs/{org}/teams/{slug}/{own}");
                (Method::PUT, path, Some(json!({"permission": permission})))
            }
            Service::Gitlab => {
                let path = format!("groups/{slug}");
                let group = self.api.must(Method::GET, &path, None, what).await?;
                let access = (level + 1) * 10;
                let own = self.api.must(Method::GET, &self.path(), None, what).await?;
                let shared = own["shared_with_groups"].as_array().into_iter().flatten();
                let mut shared = shared.filter(|one| one["group_id"] == group["id"]);
                if shared.any(|one| one["group_access_level"] == access as i64) {
                    return Ok(());
                }
                let body = json!({"group_id": group["id"], "group_access": access as i64});
                (Method::POST, format!("{}/share", self.path()), Some(body))
            }
            Service::Bitbucket => {
                let right = [
                    "REPO_READ",
                    "REPO_READ",
                    "REPO_WRITE",
                    "REPO_WRITE",
                    "REPO_ADMIN",
                ];
                let right = right[level];
                let own = self.path();
                let path = format!("{own}/permissions/groups?name={slug}&permission={right}");
                (Method::PUT, path, None)
            }
        };
        self.api.must(method, &path, body, what).await.map(drop)
    }

    /// Puts a deploy key under a title; whether it was not there.
    pub async fn put_deploy_key(&self, title: &str, key: &str) -> Result<bool, Failure> {
        let what = format!("failed to configure the deploy key of \"{self}\"");
        let is_same = |one: &Value| {
            // Services leave out, or add, the comment at the end.
            let plain = |text: &str| -> Vec<String> {
                text.split_whitespace().take(2).map(str::to_owned).collect()
            };
            let shown = [&one["key"], &one["key"]["text"]];
            let shown = shown.iter().find_map(|text| text.as_str());
            shown.is_some_and(|shown| plain(shown) == plain(key))
        };
        let path = match self.service {
            Service::Gitea | Service::Github => format!("{}/keys", self.path()),
            Service::Gitlab => format!("{}/deploy_keys", self.path()),
            Service::Bitbucket => {
                let name = encoded(&self.name);
                format!("keys/1.0/projects/{}/repos/{name}/ssh", self.project())
            }
        };
        for one in self.deploy_keys(&path, &what).await? {
            let label = [&one["title"], &one["key"]["label"]];
            let label = label.iter().find_map(|text| text.as_str());
            if is_same(&one) && !self.is_weaker(&one) {
                return Ok(false);
            }
            if label == Some(title) || is_same(&one) {
                let id = [&one["id"], &one["key"]["id"]];
                let id = id.iter().find_map(|id| id.as_i64()).unwrap_or_default();
                let path = format!("{path}/{id}");
                self.api.must(Method::DELETE, &path, None, &what).await?;
            }
        }
        let write = self.read_write_key;
        let body = match self.service {
            Service::Gitea | Service::Github => {
                json!({"title": title, "key": key, "read_only": !write})
            }
            Service::Gitlab => json!({"title": title, "key": key, "can_push": write}),
            Service::Bitbucket => {
                let right = if write { "REPO_WRITE" } else { "REPO_READ" };
                json!({"key": {"text": key, "label": title}, "permission": right})
            }
        };
        self.api
            .must(Method::POST, &path, Some(body), &what)
            .await?;
        Ok(true)
    }

    /// Whether a key may not write although it is to.
    fn is_weaker(&self, key: &Value) -> bool {
        self.read_write_key
            && (key["read_only"] == true
                || key["can_push"] == false
                || key["permission"] == "REPO_READ")
    }

    async fn deploy_keys(&self, path: &str, what: &str) -> Result<Vec<Value>, Failure> {
        match self.service {
            Service::Gitea => self.api.pages(path, "limit", what).await,
            Service::Github | Service::Gitlab => self.api.pages(path, "per_page", what).await,
            Service::Bitbucket => {
                let path = format!("{path}?limit=1000");
                let answer = self.api.must(Method::GET, &path, None, what).await?;
                Ok(answer["values"].as_array().cloned().unwrap_or_default())
            }
        }
    }

    /// Makes a deploy token of GitLab; `None` when there is one of that name already.
    pub async fn deploy_token(&self, name: &str) -> Result<Option<(String, String)>, Failure> {
        let what = format!("failed to configure the deploy token of \"{self}\"");
        let path = format!("{}/deploy_tokens", self.path());
        let all = self.api.pages(&path, "per_page", &what).await?;
        let is_it =
            |one: &Value| one["name"] == name && one["revoked"] != true && one["expired"] != true;
        if all.iter().any(is_it) {
            return Ok(None);
        }
        let body = json!({"name": name, "scopes": ["read_repository"]});
        let made = self
            .api
            .must(Method::POST, &path, Some(body), &what)
            .await?;
        let text = |field: &str| made[field].as_str().unwrap_or_default().to_owned();
        Ok(Some((text("username"), text("token"))))
    }
}
