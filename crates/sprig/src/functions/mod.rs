//! The functions, by subject. Each module registers its own with their Go signatures.

mod crypto;
mod data;
mod dates;
mod defaults;
mod dicts;
mod lists;
mod math;
mod merge;
mod paths;
mod regex;
mod strings;

use everflow_gotemplate::{Args, Context, FuncResult, Functions, GoType, Meter, Signature};

use crate::SourceOf;

const NO_SOURCE: &str = "no source of time and randomness was given";

/// Adds functions with less writing.
struct Registry<'a> {
    functions: &'a mut Functions,
    source: SourceOf,
}

impl Registry<'_> {
    fn add(
        &mut self,
        name: &'static str,
        params: &'static [GoType],
        result: GoType,
        code: fn(Args<'_>) -> FuncResult,
    ) {
        self.functions
            .add(name, Signature::new(params, result), move |_, args| {
                code(args)
            });
    }

    /// Adds a function whose last parameter repeats.
    fn variadic(
        &mut self,
        name: &'static str,
        params: &'static [GoType],
        result: GoType,
        code: fn(Args<'_>) -> FuncResult,
    ) {
        self.functions
            .add(name, Signature::variadic(params, result), move |_, args| {
                code(args)
            });
    }

    /// Adds a function whose work or result may be larger than its arguments.
    fn metered(
        &mut self,
        name: &'static str,
        params: &'static [GoType],
        result: GoType,
        code: fn(&Meter<'_>, Args<'_>) -> FuncResult,
    ) {
        self.functions.add(
            name,
            Signature::new(params, result),
            move |context, args| code(context.meter(), args),
        );
    }

    /// The same with a last parameter that repeats.
    fn metered_variadic(
        &mut self,
        name: &'static str,
        params: &'static [GoType],
        result: GoType,
        code: fn(&Meter<'_>, Args<'_>) -> FuncResult,
    ) {
        let signature = Signature::variadic(params, result);
        self.functions.add(name, signature, move |context, args| {
            code(context.meter(), args)
        });
    }

    /// Adds a function that needs the time or randomness.
    fn with_source(
        &mut self,
        name: &'static str,
        params: &'static [GoType],
        result: GoType,
        code: fn(&mut dyn crate::Source, Args<'_>) -> FuncResult,
    ) {
        let source = self.source;
        let run = move |context: &mut Context<'_>, args: Args<'_>| match source(context) {
            Some(source) => code(source, args),
            None => crate::support::fail(NO_SOURCE),
        };
        self.functions
            .add(name, Signature::new(params, result), run);
    }

    /// Adds a function that needs the time or randomness, and takes long or makes much.
    fn with_source_and_meter(
        &mut self,
        name: &'static str,
        params: &'static [GoType],
        result: GoType,
        code: fn(&mut dyn crate::Source, &Meter<'_>, Args<'_>) -> FuncResult,
    ) {
        let source = self.source;
        let run = move |context: &mut Context<'_>, args: Args<'_>| {
            let meter = context.meter();
            match source(context) {
                Some(source) => code(source, meter, args),
                None => crate::support::fail(NO_SOURCE),
            }
        };
        self.functions
            .add(name, Signature::new(params, result), run);
    }
}

pub(crate) fn register(functions: &mut Functions, source: SourceOf) {
    let mut registry = Registry { functions, source };
    strings::register(&mut registry);
    math::register(&mut registry);
    dates::register(&mut registry);
    lists::register(&mut registry);
    dicts::register(&mut registry);
    defaults::register(&mut registry);
    data::register(&mut registry);
    regex::register(&mut registry);
    paths::register(&mut registry);
    crypto::register(&mut registry);
}
