//! Random templates: mostly well formed, some broken.

use crate::Random;
use crate::words::{FIELDS, FUNCTIONS, INNER, NUMBERS, STRINGS, TEXTS, VERBS};

pub struct Generator<'r> {
    pub random: &'r mut Random,
    pub out: String,
    /// Declared variables in scope.
    pub variables: Vec<String>,
    pub loops: usize,
    /// Templates that may be called from here.
    callable: Vec<String>,
    left: String,
    right: String,
    /// Whether calls get arguments of fitting types.
    pub sane: bool,
}

impl<'r> Generator<'r> {
    pub fn new(random: &'r mut Random, delimiters: (&str, &str), callable: Vec<String>) -> Self {
        let sane = random.below(10) < 7;
        Generator {
            random,
            sane,
            out: String::new(),
            variables: vec!["$".to_owned()],
            loops: 0,
            callable,
            left: delimiters.0.to_owned(),
            right: delimiters.1.to_owned(),
        }
    }

    pub fn template(mut self) -> String {
        self.body(3);
        self.out
    }

    pub fn chance(&mut self, one_in: usize) -> bool {
        self.random.below(one_in) == 0
    }

    fn text(&mut self) {
        let text = *self.random.pick(TEXTS);
        self.out.push_str(text);
    }

    fn open(&mut self) {
        let left = self.left.clone();
        self.out.push_str(&left);
        match self.random.below(8) {
            0 => self.out.push_str("- "),
            1 => self.out.push_str("-\n"),
            2 => {}
            _ => self.out.push(' '),
        }
    }

    fn close(&mut self) {
        match self.random.below(8) {
            0 => self.out.push_str(" -"),
            1 => self.out.push_str("\n-"),
            2 => {}
            _ => self.out.push(' '),
        }
        let right = self.right.clone();
        self.out.push_str(&right);
    }

    fn keyword(&mut self, word: &str) {
        self.open();
        self.out.push_str(word);
        self.close();
    }

    fn body(&mut self, depth: usize) {
        let scope = self.variables.len();
        for _ in 0..1 + self.random.below(4) {
            self.statement(depth);
        }
        self.variables.truncate(scope);
    }

    fn statement(&mut self, depth: usize) {
        match self.random.below(if depth == 0 { 12 } else { 20 }) {
            0..=3 => self.text(),
            4..=7 => self.action(),
            8 | 9 => self.declaration(),
            10 => self.rare(),
            11 => self.template_call(),
            12..=14 => self.branch("if", depth),
            15 | 16 => self.branch("with", depth),
            _ => self.range(depth),
        }
    }

    fn rare(&mut self) {
        match self.random.below(6) {
            0 => {
                self.open();
                let out = self.out.trim_end_matches(' ').len();
                if !self.out.ends_with("- ") {
                    self.out.truncate(out);
                }
                self.out.push_str("/* comment\n */");
                let right = self.right.clone();
                if self.chance(2) {
                    self.out.push_str(" -");
                }
                self.out.push_str(&right);
            }
            1 if self.loops > 0 => self.keyword("break"),
            2 if self.loops > 0 => self.keyword("continue"),
            3 if self.chance(8) => self.keyword("break"),
            4 if self.chance(4) => {
                self.open();
                self.out.push_str("block \"blk\" ");
                self.pipeline(1);
                self.close();
                self.text();
                let outer = std::mem::replace(&mut self.variables, vec!["$".to_owned()]);
                let loops = std::mem::take(&mut self.loops);
                self.action();
                self.variables = outer;
                self.loops = loops;
                self.keyword("end");
            }
            _ => self.text(),
        }
    }

    fn action(&mut self) {
        self.open();
        self.pipeline(2);
        self.close();
    }

    fn variable(&mut self) -> String {
        let names = ["$x", "$y", "$i", "$long_name", "$é"];
        (*self.random.pick(&names)).to_owned()
    }

    fn declaration(&mut self) {
        self.open();
        if self.chance(2) && self.variables.len() > 1 {
            let name = self.random.pick(&self.variables.clone()).clone();
            self.out.push_str(&name);
            self.out.push_str(" = ");
            self.pipeline(2);
        } else {
            let name = self.variable();
            self.out.push_str(&name);
            let sign = if self.chance(4) { ":=" } else { " := " };
            self.out.push_str(sign);
            self.pipeline(2);
            self.variables.push(name);
        }
        self.close();
    }

    fn template_call(&mut self) {
        if self.sane && self.callable.len() < 2 {
            return self.text();
        }
        let from = usize::from(self.sane);
        let Some(name) = self.callable[from..]
            .get(self.random.below(self.callable.len() + 1))
            .cloned()
        else {
            return self.text();
        };
        self.open();
        self.out.push_str(&format!("template {name:?}"));
        if self.sane {
            self.out.push_str(" $");
        } else if !self.chance(4) {
            self.out.push(' ');
            self.pipeline(1);
        }
        self.close();
    }

    fn branch(&mut self, word: &str, depth: usize) {
        let scope = self.variables.len();
        self.open();
        self.out.push_str(word);
        self.out.push(' ');
        if self.chance(5) {
            let name = self.variable();
            self.out.push_str(&format!("{name} := "));
            self.variables.push(name);
        }
        self.pipeline(2);
        self.close();
        self.body(depth - 1);
        while self.chance(4) {
            self.open();
            self.out.push_str(&format!("else {word} "));
            self.pipeline(1);
            self.close();
            self.body(depth - 1);
        }
        if self.chance(3) {
            self.keyword("else");
            self.body(depth - 1);
        }
        self.keyword("end");
        self.variables.truncate(scope);
    }

    fn range(&mut self, depth: usize) {
        let scope = self.variables.len();
        self.open();
        self.out.push_str("range ");
        match self.random.below(5) {
            0 => {
                let name = self.variable();
                self.out.push_str(&format!("{name} := "));
                self.variables.push(name);
            }
            1 | 2 => {
                let (first, second) = (self.variable(), self.variable());
                self.out.push_str(&format!("{first}, {second} := "));
                self.variables.push(first);
                self.variables.push(second);
            }
            3 if self.variables.len() > 1 => {
                let name = self.random.pick(&self.variables.clone()).clone();
                self.out.push_str(&format!("{name} = "));
            }
            _ => {}
        }
        match self.random.below(if self.sane { 2 } else { 4 }) {
            0 => {
                let options = [
                    "3",
                    "0",
                    "-2",
                    "(list 1 \"a\" nil)",
                    ".List",
                    "(dict \"k\" 1 \"b\" .A)",
                    ".Map",
                    "(tiny 3)",
                    "(octet 2)",
                    ".Labels",
                ];
                let option = *self.random.pick(&options);
                self.out.push_str(option);
            }
            1 => {
                let field = *self
                    .random
                    .pick(&["$.List", "$.Map", "$.D", "$.E", "$.Labels"]);
                self.out.push_str(field);
            }
            _ => self.pipeline(2),
        }
        self.close();
        self.loops += 1;
        self.body(depth - 1);
        self.loops -= 1;
        if self.chance(3) {
            self.keyword("else");
            self.body(depth - 1);
        }
        self.keyword("end");
        self.variables.truncate(scope);
    }

    fn pipeline(&mut self, depth: usize) {
        if self.sane {
            let expr = match self.random.below(8) {
                0 => self.int_expr(depth),
                1 => self.text_expr(depth),
                2 => self.list_expr(depth),
                3 => self.map_expr(depth),
                4 => self.bool_expr(depth),
                _ => self.any_expr(depth),
            };
            // The outermost parentheses are not needed.
            let bare = expr
                .strip_prefix('(')
                .and_then(|rest| rest.strip_suffix(')'));
            let expr = match bare {
                Some(bare) if !bare.contains(['(', ')']) => bare.to_owned(),
                _ => expr,
            };
            self.out.push_str(&expr);
            if self.chance(6) {
                let next = [
                    " | print",
                    " | html",
                    " | typeof",
                    " | same",
                    " | printf \"%v-%v\" 1",
                    " | not",
                    " | list",
                ];
                let next = *self.random.pick(&next);
                self.out.push_str(next);
            }
            return;
        }
        self.command(depth, true);
        while self.chance(5) {
            let pipe = if self.chance(3) { "|" } else { " | " };
            self.out.push_str(pipe);
            self.command(depth, false);
        }
    }

    fn command(&mut self, depth: usize, first: bool) {
        if first && self.chance(2) {
            return self.operand(depth);
        }
        match self.random.below(8) {
            0 if self.chance(3) => self.operand(depth),
            1 => {
                self.field();
                for _ in 0..self.random.below(2) {
                    self.out.push(' ');
                    self.operand(depth.saturating_sub(1));
                }
            }
            2 => self.printf(depth),
            3 => {
                let call = *self.random.pick(&[
                    ".Point.Sum",
                    ".Pointer.Sum 1",
                    ".Labels.Find",
                    ".Point.Fail",
                    "call .Func",
                    "$.Pointer.Name",
                    ".Temp.String",
                ]);
                self.out.push_str(call);
                for _ in 0..self.random.below(3) {
                    self.out.push(' ');
                    self.operand(0);
                }
            }
            _ => self.function(depth),
        }
    }

    fn function(&mut self, depth: usize) {
        let name = *self.random.pick(FUNCTIONS);
        if name == "undefinedFunction" && !self.chance(30) {
            return self.operand(depth);
        }
        self.out.push_str(name);
        for _ in 0..self.random.below(4) {
            self.out.push(' ');
            self.operand(depth.saturating_sub(1));
        }
    }

    pub fn printf(&mut self, depth: usize) {
        self.out.push_str("printf \"");
        for _ in 0..1 + self.random.below(3) {
            self.out.push('%');
            for _ in 0..self.random.below(3) {
                let flag = *self.random.pick(&["#", "0", "+", "-", " "]);
                self.out.push_str(flag);
            }
            if self.chance(4) {
                let width = *self.random.pick(&["1", "5", "12", "*", "[1]", "[2]*"]);
                self.out.push_str(width);
            }
            if self.chance(4) {
                let precision = *self.random.pick(&[".", ".0", ".2", ".10", ".*", ".[1]*"]);
                self.out.push_str(precision);
            }
            let verbs: Vec<char> = VERBS.chars().collect();
            let verb = *self.random.pick(&verbs);
            self.out.push(verb);
            self.out.push('|');
        }
        self.out.push('"');
        for _ in 0..self.random.below(4) {
            self.out.push(' ');
            self.operand(depth.saturating_sub(1));
        }
    }

    fn field(&mut self) {
        let field = *self.random.pick(FIELDS);
        let base = if self.chance(6) { "$." } else { "." };
        self.out.push_str(&format!("{base}{field}"));
        for _ in 0..self.random.below(5).saturating_sub(2) {
            let inner = *self.random.pick(INNER);
            self.out.push_str(&format!(".{inner}"));
        }
    }

    fn operand(&mut self, depth: usize) {
        match self.random.below(if depth == 0 { 12 } else { 16 }) {
            0..=2 => self.field(),
            3 => {
                let inner = *self.random.pick(INNER);
                self.out.push_str(&format!(".{inner}"));
            }
            4 => self.out.push('.'),
            5 => {
                let name = self.random.pick(&self.variables.clone()).clone();
                self.out.push_str(&name);
                if self.chance(4) {
                    let inner = *self.random.pick(INNER);
                    self.out.push_str(&format!(".{inner}"));
                }
            }
            6 | 7 => {
                // Broken numbers end the whole template, so they are rarer.
                let some = if self.chance(20) { NUMBERS.len() } else { 10 };
                let number = NUMBERS[self.random.below(some)];
                self.out.push_str(number);
            }
            8 | 9 => {
                let some = if self.chance(20) { STRINGS.len() } else { 17 };
                let text = STRINGS[self.random.below(some)];
                self.out.push_str(text);
            }
            10 => {
                let constant = *self.random.pick(&["true", "false", "nil", "true"]);
                self.out.push_str(constant);
            }
            11 => {
                let name = *self
                    .random
                    .pick(&["zero", "nothing", "list", "dict", "print"]);
                self.out.push_str(name);
            }
            _ => {
                self.out.push('(');
                if self.chance(12) {
                    let name = self.variable();
                    self.out.push_str(&format!("{name} := "));
                    self.variables.push(name);
                }
                self.pipeline(depth - 1);
                self.out.push(')');
                if self.chance(4) {
                    let inner = *self.random.pick(INNER);
                    self.out.push_str(&format!(".{inner}"));
                }
            }
        }
    }
}
