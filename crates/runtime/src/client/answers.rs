//! How much of a server's answers is read. A server that a tenant names is a stranger: what its answers take is
//! bounded, that of all pages of a list together.

use std::sync::Arc;

use everflow_limits::{Budget, Bytes, Exceeded, Pool, Stop};

/// What reading one answer of a stranger may take, or all pages of one list.
const SHARE: u64 = 128 << 20;
/// What a value takes beside its text.
const VALUE: usize = 48;

/// What reading answers may take.
#[derive(Debug, Clone, Default)]
pub(super) enum Answers {
    /// The server is trusted as the program itself is.
    #[default]
    Trusted,
    /// Each answer has a share of its own, taken from what all work may use together.
    Each(Option<Arc<Pool>>),
    /// All answers have one share.
    Together(Arc<Budget>),
}

impl Answers {
    /// The same, where all that is read from now on is kept.
    pub(super) fn together(&self) -> Self {
        match self {
            Answers::Each(pool) => Answers::Together(Arc::new(share(pool.as_ref()))),
            other => other.clone(),
        }
    }

    /// What the next answer is charged to; none where nothing is charged.
    pub(super) fn budget(&self) -> Option<Arc<Budget>> {
        match self {
            Answers::Trusted => None,
            Answers::Each(pool) => Some(Arc::new(share(pool.as_ref()))),
            Answers::Together(budget) => Some(budget.clone()),
        }
    }
}

fn share(pool: Option<&Arc<Pool>>) -> Budget {
    let budget = Budget::new(Stop::new(), SHARE);
    match pool {
        Some(pool) => budget.within(pool.clone()),
        None => budget,
    }
}

/// Charges a part of an answer, by its bytes and by the marks that begin values, or says why it is not read.
pub(super) fn charge(budget: &Budget, part: &[u8]) -> Result<(), String> {
    let begins_value = |byte: &&u8| matches!(**byte, b',' | b'[' | b'{' | b':');
    let values = part.iter().filter(begins_value).count();
    budget
        .charge(part.len() + values * VALUE)
        .map_err(|error| match error {
            Exceeded::Memory { limit } => format!(
                "it takes more than the {} of memory that answers of other clusters may take",
                Bytes(limit)
            ),
            other => other.to_string(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_foreign_servers_are_charged_by_bytes_and_values() {
        let answers = Answers::Each(None);
        let budget = answers.budget().unwrap();
        assert_eq!(charge(&budget, &vec![b'x'; 100 << 20]), Ok(()));
        let error = charge(&budget, &vec![b'x'; 100 << 20]).unwrap_err();
        assert!(error.contains("128 MiB"), "{error}");
        let budget = answers.budget().unwrap();
        assert!(charge(&budget, "[],".repeat(1_000_000).as_bytes()).is_ok());
        assert!(charge(&budget, "[],".repeat(1_000_000).as_bytes()).is_err());
        assert!(Answers::Trusted.budget().is_none());
    }

    #[test]
    fn pages_of_a_list_count_together_and_go_back_to_the_pool() {
        let pool = Arc::new(Pool::new(64 << 20));
        let answers = Answers::Each(Some(pool.clone()));
        let list = answers.together();
        let page = vec![b'x'; 30 << 20];
        assert_eq!(charge(&list.budget().unwrap(), &page), Ok(()));
        assert_eq!(charge(&list.budget().unwrap(), &page), Ok(()));
        let error = charge(&answers.budget().unwrap(), &page).unwrap_err();
        assert!(error.contains("not enough memory is left"), "{error}");
        drop(list);
        assert_eq!(pool.used(), 0);
        assert_eq!(charge(&answers.budget().unwrap(), &page), Ok(()));
    }
}
