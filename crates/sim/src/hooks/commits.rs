//! What is written, and by whom.

use std::sync::{Arc, Weak};

use everflow_cluster::Request;
use everflow_cluster::faults::{Commits, Faults, Verdict};
use everflow_cluster::store::Stored;

use super::Parts;
use crate::history::Actor;
use crate::oracles::Commit;
use crate::shared::{Doing, Shared};

/// Says whose requests the users' are. Nothing goes wrong with them.
#[derive(Debug, Clone)]
pub struct UserHook(pub Arc<Shared>);

impl Faults for UserHook {
    fn handling(&self, request: &Request) {
        self.0.state().doing = Some(Doing {
            who: Actor::User,
            path: request.path.clone(),
            late: None,
        });
    }

    fn after(&self, _: &Request, _: u16) -> Verdict {
        self.0.state().doing = None;
        Verdict::Pass
    }
}

/// Is told of all that is written.
#[derive(Debug)]
pub struct Observer(pub Weak<Shared>);

impl Commits for Observer {
    fn committed(
        &self,
        table: &str,
        key: &str,
        new: Option<&Arc<Stored>>,
        old: Option<&Arc<Stored>>,
    ) {
        let Some(shared) = self.0.upgrade() else {
            return;
        };
        let at = shared.history.now();
        let doing = {
            let mut state = shared.state();
            if let Some(server) = shared.server() {
                state.revisions.push((at, server.store().revision()));
            }
            state.doing.clone()
        };
        let asked = doing
            .as_ref()
            .map(|doing| (doing, Parts::of(&doing.path)))
            .filter(|(_, parts)| parts.is_in(table) && parts.may_be(key));
        let who = asked.map_or(Actor::Cluster, |(doing, _)| doing.who);
        let commit = Commit {
            at,
            who,
            part: asked.map_or("", |(_, parts)| parts.subresource),
            late: asked.and_then(|(doing, _)| doing.late),
            table,
            key,
            new: new.map(|stored| &*stored.value),
            old: old.map(|stored| &*stored.value),
        };
        shared.history.note(who, || commit.to_string());
        shared.ask(|oracles| oracles.commit(&shared, &commit));
    }
}
