//! Every row of the catalogue of real bugs, and every class of faults, has something that covers it.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, BTreeSet};

use everflow_sim::Scenario;
use everflow_sim::search::{Plans, Ready, search};

fn lines(text: &'static str) -> impl Iterator<Item = &'static str> {
    text.lines().filter(|line| !line.starts_with('#'))
}

#[test]
fn each_row_of_the_catalogue_is_a_scenario_or_has_a_reason() {
    let mut scenarios: BTreeMap<u32, Vec<Scenario>> = BTreeMap::new();
    for scenario in Scenario::all().unwrap() {
        for row in &scenario.rows {
            scenarios.entry(*row).or_default().push(scenario.clone());
        }
    }
    let mut wrong = Vec::new();
    let mut known = BTreeSet::new();
    for line in lines(include_str!("catalogue.txt")) {
        let (row, rest) = line.split_once(' ').unwrap();
        let row: u32 = row.parse().unwrap();
        known.insert(row);
        let from = rest.split_whitespace().next().unwrap();
        match (scenarios.get(&row), rest.split_once("none: ")) {
            (None, None) => wrong.push(format!("{line}: no scenario")),
            (Some(_), Some(_)) => wrong.push(format!("{line}: there is a scenario")),
            (Some(all), None) if !all.iter().any(|one| one.from.iter().any(|it| it == from)) => {
                wrong.push(format!("{line}: no scenario says that it is from there"));
            }
            _ => {}
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let all: BTreeSet<u32> = (1..=73).chain([78]).chain(94..=108).collect();
    assert_eq!(known, all);
}

#[test]
fn each_class_of_faults_is_covered() {
    let names: BTreeSet<String> = Scenario::all()
        .unwrap()
        .into_iter()
        .map(|scenario| scenario.name)
        .collect();
    // Chance makes all classes within some hundred plans; none of them has to be run for that.
    let ready = Ready::new(Scenario::find("leader-dies").unwrap(), Default::default()).unwrap();
    let classes: BTreeSet<&str> = (0..4_000)
        .flat_map(|seed| ready.plan(seed).faults)
        .map(|fault| fault.class())
        .collect();
    let mut wrong = Vec::new();
    let mut numbers = Vec::new();
    for line in lines(include_str!("faults.txt")) {
        numbers.push(line.split_whitespace().next().unwrap().to_owned());
        let covering: Vec<&str> = line.split(" | ").skip(1).collect();
        if covering.is_empty() {
            wrong.push(line.to_owned());
        }
        for covers in covering {
            let (how, name) = covers.split_once(": ").unwrap();
            let found = match how {
                "class" => classes.contains(name),
                "scenario" => names.contains(name),
                _ => how == "none",
            };
            if !found {
                wrong.push(format!("{line}: no {covers}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    let all: Vec<String> = (1..=30).map(|number| format!("F{number}")).collect();
    assert_eq!(numbers, all);
}

/// A simulator that tests nothing would find nothing.
#[test]
fn faults_by_chance_do_happen() {
    let ready = Ready::new(Scenario::find("leader-dies").unwrap(), Default::default()).unwrap();
    let (tally, bad) = search(&[ready], &Plans::Seeds(0..60), 1, 1, &|_| true).unwrap();
    assert!(bad.is_empty(), "{bad:?}");
    assert!(tally.hits.len() > 25, "{:?}", tally.hits);
}
