//! What people have set on Flux's Deployments, for ours to have as well.

use everflow_install::instance::{Carried, carry_live};
use everflow_json::Value;
use everflow_runtime::Error;
use everflow_runtime::client::At;

use super::find::{Controller, Install};
use super::stop::DEPLOYMENTS;
use crate::exit::Failure;
use crate::flux::bootstrap::ComponentOptions;
use crate::flux::connection::Session;

/// Carries what is set on the live Deployments over to those among the objects.
pub async fn over(
    session: &Session,
    install: &Install,
    options: &ComponentOptions,
    objects: &mut [Value],
) -> Result<Carried, Failure> {
    let failed = |error: String| Failure::Work(error);
    let options = options.install_options();
    let options = options.map_err(|error| failed(error.to_string()))?;
    let mut live = Vec::new();
    let replaced = install.controllers.iter().filter(|one| one.is_replaced());
    for Controller {
        namespace, name, ..
    } in replaced
    {
        match session
            .client
            .get(&DEPLOYMENTS, At::new(namespace, name))
            .await
        {
            Ok(deployment) => live.push(deployment),
            // Gone since it was looked for.
            Err(Error::NotFound(_)) => {}
            Err(error) => return Err(failed(session.told_of(&error))),
        }
    }
    Ok(carry_live(&options, &live, objects))
}

/// The DNS domain of the cluster, as the addresses have it that the controllers were given.
pub fn domain(install: &Install) -> &str {
    let args = install.controllers.iter().flat_map(|one| &one.args);
    let mut domains = args.filter_map(|arg| {
        let is_address =
            arg.starts_with("--storage-adv-addr=") || arg.starts_with("--events-addr=");
        let (_, domain) = arg.split_once(".svc.").filter(|_| is_address)?;
        let domain = domain.split([':', '/']).next()?.trim_end_matches('.');
        Some(domain).filter(|domain| !domain.is_empty())
    });
    domains.next().unwrap_or("cluster.local")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flux::adopt::find::Manager;

    fn install(args: &[&str]) -> Install {
        let controller = Controller {
            namespace: "flux-system".to_owned(),
            name: "source-controller".to_owned(),
            component: "source-controller",
            replicas: 1,
            noted: None,
            version: String::new(),
            args: args.iter().map(|arg| (*arg).to_owned()).collect(),
        };
        Install {
            namespace: "flux-system".to_owned(),
            manager: Manager::Nobody,
            controllers: vec![controller],
        }
    }

    #[test]
    fn domain_of_the_cluster_is_that_of_the_addresses() {
        let events = "--events-addr=http://notification-controller.flux-system.svc.corp.example./";
        assert_eq!(domain(&install(&[events])), "corp.example");
        let storage = "--storage-adv-addr=source-controller.$(RUNTIME_NAMESPACE).svc.a.b.";
        assert_eq!(domain(&install(&[storage])), "a.b");
        assert_eq!(domain(&install(&["--events-addr="])), "cluster.local");
        assert_eq!(
            domain(&install(&["--storage-adv-addr=s.f.svc:80"])),
            "cluster.local"
        );
    }
}
