//! Who should hold which shard.

use std::collections::{BTreeMap, BTreeSet};

/// Shares shards out among members. Nobody has two more than another, whoever holds a shard keeps it as long as that is
/// so, and all who see the same come to the same.
pub fn assign(members: &BTreeSet<String>, holders: &[Option<String>]) -> Vec<Option<String>> {
    if members.is_empty() {
        return vec![None; holders.len()];
    }
    let quotas = quotas(members, holders);
    let mut room = quotas.clone();
    let mut wanted: Vec<Option<String>> = holders
        .iter()
        .map(|holder| {
            let holder = holder.as_ref()?;
            let left = room.get_mut(holder).filter(|left| **left > 0)?;
            *left -= 1;
            Some(holder.clone())
        })
        .collect();
    let mut takers = room
        .into_iter()
        .flat_map(|(member, left)| std::iter::repeat_n(member, left));
    for shard in wanted.iter_mut().filter(|shard| shard.is_none()) {
        *shard = takers.next();
    }
    wanted
}

/// How many shards each member should hold. What cannot be divided goes to those who hold the most now.
fn quotas(members: &BTreeSet<String>, holders: &[Option<String>]) -> BTreeMap<String, usize> {
    let (share, over) = (holders.len() / members.len(), holders.len() % members.len());
    let held = |member: &String| {
        let its = holders.iter().flatten().filter(|holder| *holder == member);
        its.count()
    };
    let mut order: Vec<&String> = members.iter().collect();
    order.sort_by_key(|member| std::cmp::Reverse(held(member)));
    let quota = |(place, member): (usize, &String)| {
        let more = usize::from(place < over);
        (member.clone(), share + more)
    };
    order.into_iter().enumerate().map(quota).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn names(numbers: &BTreeSet<u8>) -> BTreeSet<String> {
        numbers.iter().map(|number| format!("r{number}")).collect()
    }

    fn count(wanted: &[Option<String>], member: &str) -> usize {
        let its = wanted.iter().flatten().filter(|name| *name == member);
        its.count()
    }

    fn moved(before: &[Option<String>], after: &[Option<String>]) -> usize {
        before.iter().zip(after).filter(|(a, b)| a != b).count()
    }

    fn members() -> impl Strategy<Value = BTreeSet<String>> {
        prop::collection::btree_set(0_u8..9, 1..7).prop_map(|set| names(&set))
    }

    fn holders() -> impl Strategy<Value = Vec<Option<String>>> {
        let holder = prop::option::of((0_u8..9).prop_map(|number| format!("r{number}")));
        prop::collection::vec(holder, 1..40)
    }

    proptest! {
        #[test]
        fn shares_are_even_and_nothing_is_left(members in members(), holders in holders()) {
            let wanted = assign(&members, &holders);
            prop_assert_eq!(wanted.len(), holders.len());
            prop_assert!(wanted.iter().all(|name| name.as_ref().is_some_and(|name| members.contains(name))));
            let counts: Vec<usize> = members.iter().map(|name| count(&wanted, name)).collect();
            let (least, most) = (counts.iter().min(), counts.iter().max());
            prop_assert!(most.unwrap() - least.unwrap() <= 1, "{:?}", counts);
        }

        #[test]
        fn balanced_assignment_is_not_changed(members in members(), holders in holders()) {
            let wanted = assign(&members, &holders);
            prop_assert_eq!(assign(&members, &wanted), wanted);
        }

        #[test]
        fn joining_member_gets_a_share_and_nothing_else_moves(members in members(), shards in 1_usize..40) {
            let before = assign(&members, &vec![None; shards]);
            let mut more = members.clone();
            more.insert("new".to_owned());
            let after = assign(&more, &before);
            prop_assert_eq!(moved(&before, &after), count(&after, "new"));
            prop_assert!(count(&after, "new") >= shards / more.len());
        }

        #[test]
        fn only_shards_of_the_leaving_member_move(members in members(), shards in 1_usize..40) {
            let before = assign(&members, &vec![None; shards]);
            let leaver = members.iter().next().unwrap().clone();
            let mut fewer = members.clone();
            fewer.remove(&leaver);
            let after = assign(&fewer, &before);
            prop_assert_eq!(moved(&before, &after), count(&before, &leaver));
        }
    }
}
