//! Objects of which a process dies.

use std::sync::Arc;

use everflow_env::{Blocking, BoxFuture, InlineBlocking, Job};

use crate::plan::{Millis, Weather};
use crate::shared::Shared;

/// How long a process is down that died of an object.
const DOWN: Millis = 1_000;

/// Work on the spot, of which the process dies where the weather says so.
#[derive(Debug)]
pub struct PoisonedBlocking {
    /// The world.
    pub shared: Arc<Shared>,
    /// Which replica.
    pub replica: usize,
    /// Which of its lives.
    pub life: u32,
}

impl Blocking for PoisonedBlocking {
    fn run(&self, job: Job) -> BoxFuture<'static, ()> {
        let lane = format!("{}/{}/{}", job.lane.kind, job.lane.namespace, job.lane.name);
        let weather = self.shared.weather(self.replica);
        let poisoned = weather.iter().find(|(_, what, _)| {
            job.foreign && matches!(what, Weather::Poisoned(object) if *object == lane)
        });
        let class = poisoned.map(|(fault, ..)| fault.class());
        let work = InlineBlocking.run(job);
        let Some(class) = class else {
            return work;
        };
        let (shared, replica, life) = (self.shared.clone(), self.replica, self.life);
        Box::pin(async move {
            work.await;
            shared.hit(class, || format!("work on {lane} ends the process"));
            shared.kill(replica, life, DOWN, false);
            std::future::pending::<()>().await;
        })
    }
}
