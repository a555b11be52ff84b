//! Services that keep repositories: the status of commits and comments on pull requests.

mod address;
mod azure_devops;
mod bitbucket;
mod comment;
mod commit;
mod flow;
mod gitea;
mod github;
mod gitlab;
pub(crate) mod status;

use everflow_api::notification::ProviderType;

use crate::exchange::Exchange;
use crate::provider::{Outgoing, Settings};

use comment::{Comment, CommentApi};
use commit::{SetStatus, StatusApi};
use flow::FlowExchange;

/// The calls to a service that keeps repositories.
pub(crate) fn exchange(
    settings: &Settings,
    outgoing: &Outgoing<'_>,
) -> Result<Box<dyn Exchange>, String> {
    use ProviderType as Kind;
    let event = outgoing.event;
    let object = || event.involved.lower_name().to_lowercase();
    let status = |api: Result<Box<dyn StatusApi>, String>| {
        let flow = SetStatus::new(api?, event, outgoing.commit_status)?;
        Ok(Box::new(FlowExchange::new(flow)) as Box<dyn Exchange>)
    };
    let comment = |api: Result<Box<dyn CommentApi>, String>| {
        let flow = Comment::new(api?, event, &settings.uid)?;
        Ok(Box::new(FlowExchange::new(flow)) as Box<dyn Exchange>)
    };
    match settings.kind {
        Kind::GitHub => status(github::GitHub::new(settings).map(|api| Box::new(api) as _)),
        Kind::GitLab => status(gitlab::GitLab::new(settings).map(|api| Box::new(api) as _)),
        Kind::Gitea => status(gitea::Gitea::new(settings).map(|api| Box::new(api) as _)),
        Kind::Bitbucket => {
            status(bitbucket::Cloud::new(settings, object()).map(|api| Box::new(api) as _))
        }
        Kind::BitbucketServer => {
            status(bitbucket::Server::new(settings, object()).map(|api| Box::new(api) as _))
        }
        Kind::AzureDevOps => {
            status(azure_devops::AzureDevOps::new(settings, event).map(|api| Box::new(api) as _))
        }
        Kind::GitHubPullRequestComment => {
            let api = github::GitHub::new(settings);
            comment(api.map(|api| Box::new(api.with_slug()) as _))
        }
        Kind::GitLabMergeRequestComment => {
            comment(gitlab::GitLab::new(settings).map(|api| Box::new(api) as _))
        }
        Kind::GiteaPullRequestComment => {
            comment(gitea::Gitea::new(settings).map(|api| Box::new(api) as _))
        }
        Kind::GitHubDispatch => github::GitHub::new(settings).map(|api| {
            let flow = github::RepositoryDispatch::new(api, event);
            Box::new(FlowExchange::new(flow)) as Box<dyn Exchange>
        }),
        other => Err(format!("{other} keeps no repositories")),
    }
}
