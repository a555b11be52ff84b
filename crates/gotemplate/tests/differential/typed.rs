//! Expressions of known types, so that most calls succeed.

use crate::generate::Generator;
use crate::words::STRINGS;

impl Generator<'_> {
    pub fn choose(&mut self, options: &[&str]) -> String {
        (*self.random.pick(options)).to_owned()
    }

    pub fn int_expr(&mut self, depth: usize) -> String {
        if depth == 0 || self.chance(3) {
            return self.choose(&[
                "0",
                "1",
                "2",
                "-1",
                "42",
                "0x1F",
                "'a'",
                "$.Point.X",
                "1_000",
                "$.Pointer.X",
                "zero",
            ]);
        }
        let next = depth - 1;
        match self.random.below(6) {
            0 => format!("(len {})", self.text_expr(next)),
            1 => format!("(len {})", self.list_expr(next)),
            2 => format!("(len {})", self.map_expr(next)),
            3 => format!("(addInts {} {})", self.int_expr(next), self.int_expr(next)),
            4 => format!(
                "($.Point.Sum {} {})",
                self.int_expr(next),
                self.int_expr(next)
            ),
            _ => format!(
                "({} | addInts {})",
                self.int_expr(next),
                self.int_expr(next)
            ),
        }
    }

    pub fn text_expr(&mut self, depth: usize) -> String {
        if depth == 0 || self.chance(3) {
            let some = self.random.below(17);
            let literal = STRINGS[some];
            return self.choose(&[literal, "$.Str", "$.Point.Y", "$.Pointer.Name", literal]);
        }
        let next = depth - 1;
        match self.random.below(9) {
            0 => format!("(upper {})", self.text_expr(next)),
            1 => format!("(print {} {})", self.any_expr(next), self.any_expr(next)),
            2 => format!("(html {} {})", self.any_expr(next), self.any_expr(next)),
            3 => format!("(js {})", self.any_expr(next)),
            4 => format!("(urlquery {})", self.any_expr(next)),
            5 => format!(
                "(joinAll {} {} {})",
                self.text_expr(next),
                self.text_expr(next),
                self.text_expr(next)
            ),
            6 => format!("(println {} {})", self.any_expr(next), self.any_expr(next)),
            7 => {
                let mark = self.out.len();
                let sane = std::mem::replace(&mut self.sane, false);
                self.printf(0);
                self.sane = sane;
                format!("({} {})", self.out.split_off(mark), self.any_expr(next))
            }
            _ => format!("(typeof {})", self.any_expr(next)),
        }
    }

    pub fn list_expr(&mut self, depth: usize) -> String {
        if depth == 0 || self.chance(3) {
            return self.choose(&[
                "$.List",
                "(list 1 \"a\" nil)",
                "(list)",
                "(list 3 2 1 true)",
            ]);
        }
        let next = depth - 1;
        match self.random.below(3) {
            0 => format!("(list {} {})", self.any_expr(next), self.any_expr(next)),
            1 => format!(
                "(slice (list {} 2 3) {})",
                self.any_expr(next),
                self.random.below(4)
            ),
            _ => format!(
                "(slice (slice (list {} 2 3) 0 {}) 1 {})",
                self.any_expr(next),
                1 + self.random.below(3),
                1 + self.random.below(3)
            ),
        }
    }

    pub fn map_expr(&mut self, depth: usize) -> String {
        if depth == 0 || self.chance(3) {
            return self.choose(&["$.Map", "$.Labels", "(dict)", "(dict \"k\" 1 \"b\" $.A)"]);
        }
        let next = depth - 1;
        match self.random.below(2) {
            0 => format!("(dict {} {})", self.text_expr(next), self.any_expr(next)),
            _ => format!(
                "(put (dict 1 2) {} {})",
                self.text_expr(next),
                self.any_expr(next)
            ),
        }
    }

    pub fn bool_expr(&mut self, depth: usize) -> String {
        if depth == 0 {
            return self.choose(&["true", "false", "(not $.A)"]);
        }
        let next = depth - 1;
        let compare = self.choose(&["eq", "ne", "lt", "le", "gt", "ge"]);
        match self.random.below(6) {
            0 => format!(
                "({compare} {} {})",
                self.int_expr(next),
                self.int_expr(next)
            ),
            1 => format!(
                "({compare} {} {})",
                self.text_expr(next),
                self.text_expr(next)
            ),
            2 => format!("(and {} {})", self.any_expr(next), self.any_expr(next)),
            3 => format!("(or {} {})", self.any_expr(next), self.any_expr(next)),
            4 => format!("(not {})", self.any_expr(next)),
            _ => format!(
                "(eq {} {} nil)",
                self.any_expr(next),
                self.choose(&["nil", "$.Nil", "$.Missing"])
            ),
        }
    }

    pub fn any_expr(&mut self, depth: usize) -> String {
        match self.random.below(if depth == 0 { 6 } else { 14 }) {
            0 => self.choose(&[
                "$.A",
                "$.B",
                "$.C",
                "$.D",
                "$.E",
                "$.Nil",
                "$.Missing",
                "$.Temp",
                "$.Level",
            ]),
            1 => self.choose(&[
                "$.Release.Version",
                "$.Release.Next",
                "$.Release",
                "$.Point",
                "$.Pointer",
                "$.Release.Version.Major",
                "$.Point.Any",
                "$.Pointer.Tags",
            ]),
            2 => self.choose(&[
                "true", "1.5", "\"x\"", "2+3i", "1e3", "nothing", "0x1p4", "'é'",
            ]),
            3 => match self.random.pick(&self.variables.clone()).as_str() {
                "$" => "$.Str".to_owned(),
                name => name.to_owned(),
            },
            4 => self.choose(&[
                "$.Map.A",
                "$.Map.b",
                "$.Labels.Key",
                "($.Map.A).b",
                "$.Map.Key",
                "(same $.E)",
                "(index $.Map \"nested\")",
            ]),
            5 if self.loops > 0 => ".".to_owned(),
            5 => "$.Str".to_owned(),
            6 | 7 => self.int_expr(depth - 1),
            8 | 9 => self.text_expr(depth - 1),
            10 => self.list_expr(depth - 1),
            11 => self.map_expr(depth - 1),
            12 => format!(
                "(index {} {})",
                self.list_expr(depth - 1),
                self.random.below(3)
            ),
            _ => self.bool_expr(depth - 1),
        }
    }
}
