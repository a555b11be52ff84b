//! Random templates that call Helm's functions with arguments that (mostly) fit.

use everflow_gotemplate::{Functions, GoType};
use everflow_json::{Value as Json, json};

use crate::Random;

/// Functions whose answers depend on time, chance, the machine or the order of Go's maps, and those
/// that are slow on purpose.
const LEFT_OUT: &[&str] = &[
    "now",
    "ago",
    "date",
    "dateInZone",
    "date_in_zone",
    "htmlDate",
    "htmlDateInZone",
    "uuidv4",
    "shuffle",
    "keys",
    "values",
    "randAlpha",
    "randAlphaNum",
    "randAscii",
    "randNumeric",
    "randBytes",
    "randInt",
    "genCA",
    "genCAWithKey",
    "genPrivateKey",
    "genSelfSignedCert",
    "genSelfSignedCertWithKey",
    "genSignedCert",
    "genSignedCertWithKey",
    "buildCustomCert",
    "bcrypt",
    "htpasswd",
    "derivePassword",
    "encryptAES",
    "decryptAES",
    "getHostByName",
    "lookup",
    "fail",
    "required",
    "include",
    "tpl",
    "unixEpoch",
    "toDate",
    "mustToDate",
    "dateModify",
    "date_modify",
    "mustDateModify",
    "must_date_modify",
    "duration",
    "durationRound",
];

const GO_FUNCTIONS: &[(&str, &[GoType])] = &[
    ("print", &[GoType::Any, GoType::Any]),
    ("html", &[GoType::Any]),
    ("urlquery", &[GoType::Any]),
    ("and", &[GoType::Any, GoType::Any]),
    ("or", &[GoType::Any, GoType::Any]),
    ("not", &[GoType::Any]),
    ("eq", &[GoType::String, GoType::String]),
    ("lt", &[GoType::Int, GoType::Int]),
    ("len", &[GoType::ANY_SLICE]),
    ("index", &[GoType::ANY_MAP, GoType::String]),
];

const STRINGS: &[&str] = &[
    "\"\"",
    "\"a\"",
    "\"hello world\"",
    "\"Hello-World_fooBar\"",
    "\"a,b,c\"",
    "\"1.2.3\"",
    "\">=1.0.0 <2\"",
    "\"true\"",
    "\"42\"",
    "\"0x1F\"",
    "\"3.7\"",
    "\"a/b/../c.txt\"",
    "\"https://u:p@h.example:80/p?q=1#f\"",
    "\"  pad  \"",
    "\"line1\\nline2\\n\"",
    "\"h\\u00e9llo w\\u00f6rld\"",
    "`a: 1\nb: [x, y]\n`",
    "`{\"k\": [1, 2.5, null]}`",
    "\"[a-c]+\"",
    "\"(l+)o\"",
    "\"$1x\"",
    "\"YWJj\"",
    "\"%s-%v\"",
    "\"name\"",
    "\"nested\"",
    "\"key\"",
    "\"v1.2\"",
    "\"it's\"",
    "\"\\\"q\\\"\"",
    "\"1h30m\"",
    "\"aGVsbG8=\"",
    "`x = 1\n[t]\ny = \"z\"\n`",
];

const FIELDS: &[&str] = &[
    "$.Values.name",
    "$.Values.count",
    "$.Values.ratio",
    "$.Values.on",
    "$.Values.list",
    "$.Values.map",
    "$.Values.nested.deep.key",
    "$.Values.missing",
    "$.Values.empty",
    "$.Values.null",
    "$.Values.numbers",
    "$.Release.Name",
    "$.Chart.Name",
    "$.Chart.Version",
    "$.Values.text",
    "$.Values.maps",
    "$.Capabilities.KubeVersion.Minor",
];

const TEXTS: &[&str] = &["a: ", "\n", "- x\n", "  ", "# c\n", "text", "\n  key: "];

pub struct Generator<'a> {
    pub random: &'a mut Random,
    pub functions: &'a [(String, Vec<GoType>, bool)],
    out: String,
    variables: usize,
}

/// Functions with their parameters, and whether the last one repeats.
pub fn usable(functions: &Functions) -> Vec<(String, Vec<GoType>, bool)> {
    let mut list: Vec<(String, Vec<GoType>, bool)> = functions
        .names()
        .filter(|name| !LEFT_OUT.contains(name))
        .filter_map(|name| {
            let signature = functions.get(name)?.signature;
            Some((
                name.to_owned(),
                signature.params.to_vec(),
                signature.variadic,
            ))
        })
        .collect();
    list.sort_by(|a, b| a.0.cmp(&b.0));
    for (name, params) in GO_FUNCTIONS {
        list.push(((*name).to_owned(), params.to_vec(), false));
    }
    list
}

impl<'a> Generator<'a> {
    pub fn new(random: &'a mut Random, functions: &'a [(String, Vec<GoType>, bool)]) -> Self {
        Generator {
            random,
            functions,
            out: String::new(),
            variables: 0,
        }
    }

    pub fn template(mut self) -> String {
        self.body(2);
        self.out
    }

    fn pick(&mut self, list: &[&str]) -> String {
        list[self.random.below(list.len())].to_owned()
    }

    fn body(&mut self, depth: usize) {
        let variables = self.variables;
        for _ in 0..1 + self.random.below(3) {
            self.statement(depth);
        }
        self.variables = variables;
    }

    fn statement(&mut self, depth: usize) {
        let choice = self.random.below(if depth == 0 { 7 } else { 12 });
        let text = self.pick(TEXTS);
        self.out.push_str(&text);
        match choice {
            0..=3 => {
                let call = self.call(2);
                let trim = self.pick(&["{{ ", "{{- "]);
                let tail = self.pick(&[
                    "",
                    "",
                    " | quote",
                    " | toYaml",
                    " | toJson",
                    " | nindent 2",
                    " | default \"d\"",
                    " | trunc 9",
                ]);
                self.out.push_str(&format!("{trim}{call}{tail} }}}}"));
            }
            4 => {
                let call = self.call(2);
                self.out
                    .push_str(&format!("{{{{- $v{} := {call} }}}}", self.variables));
                self.variables += 1;
            }
            5 => {
                let data = self.any(1);
                self.out
                    .push_str(&format!("{{{{ include \"helper\" {data} | indent 1 }}}}"));
            }
            6 => {
                let inner = self.call(1);
                let data = self.pick(&["$", ".", "$.Values"]);
                self.out.push_str(
                    &format!("{{{{ tpl `<{{{{ {inner} }}}}>` {data} }}}}").replace("$.", "."),
                );
            }
            7 | 8 => self.block("if", depth),
            9 => self.block("with", depth),
            _ => {
                let over = match self.random.below(3) {
                    0 => self.list(1),
                    1 => self.map(1),
                    _ => format!("(until {})", self.random.below(4)),
                };
                self.out.push_str(&format!(
                    "{{{{- range $k, $v := {over} }}}}{{{{ $k }}}}={{{{ $v }}}};"
                ));
                self.body(depth - 1);
                self.out.push_str("{{- end }}");
            }
        }
    }

    fn block(&mut self, word: &str, depth: usize) {
        let condition = self.call(1);
        self.out.push_str(&format!("{{{{- {word} {condition} }}}}"));
        self.body(depth - 1);
        if self.random.below(2) == 0 {
            self.out.push_str("{{- else }}");
            self.body(depth - 1);
        }
        self.out.push_str("{{- end }}");
    }

    /// A function with arguments, without parentheses.
    fn call(&mut self, depth: usize) -> String {
        let (name, params, variadic) =
            self.functions[self.random.below(self.functions.len())].clone();
        let fixed = params.len() - usize::from(variadic);
        let count = match variadic {
            true => fixed + self.random.below(4),
            false => fixed,
        };
        let mut text = name;
        for index in 0..count {
            let param = params[index.min(params.len() - 1)];
            let argument = self.argument(param, depth.saturating_sub(1));
            // A map put into itself overflows the stack of the real helm.
            match index == 0 && (text == "set" || text.to_lowercase().contains("merge")) {
                true => text.push_str(&format!(" (deepCopy {argument})")),
                false => text.push_str(&format!(" {argument}")),
            }
        }
        text
    }

    fn argument(&mut self, param: GoType, depth: usize) -> String {
        if self.random.below(30) == 0 {
            return self.any(depth);
        }
        match param {
            GoType::String => self.string(depth),
            GoType::Int | GoType::Int64 | GoType::Uint32 => self.int(depth),
            GoType::Bool => self.pick(&[
                "true",
                "false",
                "(not $.Values.on)",
                "(empty $.Values.empty)",
            ]),
            GoType::Float64 => self.pick(&["0.5", "2.0", ".25"]),
            GoType::Slice(_) => self.list(depth),
            GoType::Map(_) => self.map(depth),
            _ => self.any(depth),
        }
    }

    fn string(&mut self, depth: usize) -> String {
        match self.random.below(if depth == 0 { 3 } else { 6 }) {
            0..=1 => self.pick(STRINGS),
            2 => self.pick(&[
                "$.Values.name",
                "$.Values.text",
                "$.Release.Name",
                "$.Chart.Version",
            ]),
            3 => format!("(print {})", self.any(depth - 1)),
            4 => {
                let name = self.pick(&[
                    "upper",
                    "trim",
                    "quote",
                    "toString",
                    "toJson",
                    "b64enc",
                    "title",
                    "snakecase",
                    "sha256sum",
                    "nospace",
                ]);
                let argument = self.string(depth - 1);
                format!("({name} {argument})")
            }
            _ => format!("(toYaml {})", self.any(depth - 1)),
        }
    }

    fn int(&mut self, depth: usize) -> String {
        match self.random.below(if depth == 0 { 3 } else { 5 }) {
            0..=2 => self.pick(&["0", "1", "2", "3", "5", "-1", "10", "7"]),
            3 => format!("(len {})", self.list(depth - 1)),
            _ => "(int $.Values.count)".to_owned(),
        }
    }

    fn list(&mut self, depth: usize) -> String {
        match self.random.below(if depth == 0 { 3 } else { 5 }) {
            0 => self.pick(&[
                "$.Values.list",
                "$.Values.numbers",
                "(list)",
                "(list 3 1 2)",
                "(list \"b\" \"a\" \"b\")",
                "$.Values.maps",
            ]),
            1 => "(splitList \",\" \"c,a,b\")".to_owned(),
            2 => format!("(until {})", self.random.below(5)),
            3 => format!("(list {} {})", self.any(depth - 1), self.any(depth - 1)),
            _ => format!("(append {} {})", self.list(depth - 1), self.any(depth - 1)),
        }
    }

    fn map(&mut self, depth: usize) -> String {
        match self.random.below(if depth == 0 { 2 } else { 4 }) {
            0 => self.pick(&[
                "$.Values.map",
                "$.Values.nested",
                "(dict)",
                "$.Values",
                "(dict \"a\" 1 \"b\" (dict \"c\" 2))",
            ]),
            1 => "(fromYaml \"x: 1\\ny: [a]\")".to_owned(),
            2 => format!("(dict {} {})", self.string(depth - 1), self.any(depth - 1)),
            _ => format!(
                "(merge (deepCopy {}) {})",
                self.map(depth - 1),
                self.map(depth - 1)
            ),
        }
    }

    fn any(&mut self, depth: usize) -> String {
        match self.random.below(if depth == 0 { 6 } else { 9 }) {
            0 => self.string(0),
            1 => self.int(0),
            2 | 3 => self.pick(FIELDS),
            4 if self.variables > 0 => format!("$v{}", self.random.below(self.variables)),
            4 | 5 => self.pick(&[
                "true",
                "nil",
                "1.5",
                "1e6",
                "-3",
                "(int64 7)",
                "(list 1 \"x\" nil)",
                "(dict \"k\" \"v\")",
            ]),
            6 => self.list(depth - 1),
            7 => self.map(depth - 1),
            _ => format!("({})", self.call(depth)),
        }
    }
}

/// Values for a case.
pub fn values(random: &mut Random) -> Json {
    let words = ["x", "web", "", "a b", "1", "héllo", "multi\nline\n"];
    let word = |random: &mut Random| words[random.below(words.len())];
    let numbers = [0.0, 1.0, 3.0, 80.0, 1_000_000.0, 1.5, -2.25, 1e21, 0.1];
    json!({
        "name": word(random),
        "text": word(random),
        "count": numbers[random.below(5)],
        "ratio": numbers[random.below(9)],
        "on": random.below(2) == 0,
        "list": ["b", "a", word(random)],
        "numbers": [3.0, 1.0, numbers[random.below(9)]],
        "map": {"a": 1.0, "b": word(random), "key": {"x": true}},
        "maps": [{"name": "n1", "v": 1.0}, {"name": word(random)}],
        "nested": {"deep": {"key": word(random)}, "list": [1.0, [2.0]]},
        "empty": "",
        "null": null,
    })
}
