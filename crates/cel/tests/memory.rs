//! What an evaluation takes in memory.
#![allow(clippy::unwrap_used)]

use everflow_cel::{Program, Variables};
use peak_alloc::PeakAlloc;

#[global_allocator]
static MEMORY: PeakAlloc = PeakAlloc;

/// What one evaluation may take.
const MOST: usize = 192 << 20;

#[test]
fn evaluations_take_bounded_memory() {
    let long = "ab".repeat(40_000);
    let texts: Vec<String> = (0..60).map(|at| format!("s+'{at}'")).collect();
    let doubled = format!("['{long}']{}", ".map(s,s+s)".repeat(7));
    let expressions = [
        "lists.range(31000000).size()".to_owned(),
        "lists.range(9000000).size()".to_owned(),
        "lists.range(4000000).reverse().slice(0, 9).size()".to_owned(),
        "[lists.range(3000000)].map(x, [x.reverse(), x.reverse(), x.reverse(), x.reverse(), x.reverse()]).size()".to_owned(),
        "lists.range(4000000).all(x, x >= 0)".to_owned(),
        "lists.range(6000000).exists(x, x == 5)".to_owned(),
        format!("{doubled}.map(s,[{}]).size()", texts.join(",")),
        format!("'{long}'.split('').map(x, [x]).size()"),
        format!("[('{long}'+'{long}').split('')].map(x, [x+x+x+x+x+x+x+x+x+x]).size()"),
        format!("['{long}'.split('')].map(x, x+x+x+x+x+x+x+x).map(x, [x+x,x+x,x+x,x+x,x+x,x+x,x+x]).size()"),
        format!("[[[1]]]{}", ".map(x,[x,[x],[x]])".repeat(20)),
        format!("{{'a':1}}{}", ".transformMap(k,v,{'a':v,'b':[v]})".repeat(20)),
    ];
    for text in expressions {
        let before = MEMORY.current_usage();
        MEMORY.reset_peak_usage();
        let outcome = Program::compile(&text)
            .map(|program| program.evaluate(&Variables::new()).map(drop))
            .map_err(|error| error.to_string());
        let used = MEMORY.peak_usage() - before;
        println!("{} MB {outcome:?}: {text:.80}", used >> 20);
        assert!(used < MOST, "{} MB: {text:.90}", used >> 20);
    }
}
