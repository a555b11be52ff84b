//! Random template texts: mostly well typed, so that most of them render.

use everflow_corpus::Random;

/// What an expression gives.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Number,
    Bool,
    List,
    Map,
    Any,
    /// A number that suits counts and indices.
    Small,
    /// A regular expression.
    Pattern,
    /// A format with one verb.
    Format,
    Constraint,
    Version,
    /// A key that maps are likely to have.
    Key,
    /// A map that nothing else holds.
    Fresh,
}
use Kind::*;

const KINDS: [Kind; 6] = [Text, Number, Bool, List, Map, Any];
const KEYS: &[&str] = &["a", "b", "c", "name", "port", "nested"];
/// Values by kind; every chart has all of them.
const TEXTS: &[&str] = &["s1", "s2", "s3"];
const NUMBERS: &[&str] = &["i1", "i2", "f1"];
const BOOLS: &[&str] = &["b1", "b2"];
const LISTS: &[&str] = &["l1", "l2"];
const MAPS: &[&str] = &["m1", "m2", "global"];
const OTHERS: &[&str] = &["x1", "x2", "n1", "absent"];
/// Names of partials; every chart may define them again.
pub const PARTIALS: &[&str] = &["p0", "p1", "p2", "p3"];

/// Functions with what they take and give.
const FUNCTIONS: &[(&str, &[Kind], Kind)] = &[
    ("upper", &[Text], Text),
    ("lower", &[Text], Text),
    ("title", &[Text], Text),
    ("trim", &[Text], Text),
    ("trimSuffix", &[Text, Text], Text),
    ("trimPrefix", &[Text, Text], Text),
    ("trimAll", &[Text, Text], Text),
    ("trunc", &[Small, Text], Text),
    ("replace", &[Text, Text, Text], Text),
    ("quote", &[Any], Text),
    ("squote", &[Any], Text),
    ("cat", &[Any, Any], Text),
    ("indent", &[Small, Text], Text),
    ("nindent", &[Small, Text], Text),
    ("repeat", &[Small, Text], Text),
    ("substr", &[Small, Small, Text], Text),
    ("nospace", &[Text], Text),
    ("initials", &[Text], Text),
    ("swapcase", &[Text], Text),
    ("snakecase", &[Text], Text),
    ("camelcase", &[Text], Text),
    ("kebabcase", &[Text], Text),
    ("abbrev", &[Small, Text], Text),
    ("wrap", &[Small, Text], Text),
    ("plural", &[Text, Text, Small], Text),
    ("sha256sum", &[Text], Text),
    ("sha1sum", &[Text], Text),
    ("adler32sum", &[Text], Text),
    ("b64enc", &[Text], Text),
    ("b32enc", &[Text], Text),
    ("regexReplaceAll", &[Pattern, Text, Text], Text),
    ("regexMatch", &[Pattern, Text], Bool),
    ("regexFind", &[Pattern, Text], Text),
    ("regexQuoteMeta", &[Text], Text),
    ("printf", &[Format, Any], Text),
    ("print", &[Any, Any], Text),
    ("println", &[Any], Text),
    ("toString", &[Any], Text),
    ("toJson", &[Any], Text),
    ("toYaml", &[Any], Text),
    ("toYamlPretty", &[Any], Text),
    ("toPrettyJson", &[Any], Text),
    ("toRawJson", &[Any], Text),
    ("toToml", &[Map], Text),
    ("join", &[Text, List], Text),
    ("html", &[Any], Text),
    ("js", &[Text], Text),
    ("urlquery", &[Text], Text),
    ("typeOf", &[Any], Text),
    ("kindOf", &[Any], Text),
    ("base", &[Text], Text),
    ("dir", &[Text], Text),
    ("clean", &[Text], Text),
    ("ext", &[Text], Text),
    ("default", &[Any, Any], Any),
    ("coalesce", &[Any, Any, Any], Any),
    ("ternary", &[Any, Any, Bool], Any),
    ("required", &[Text, Any], Any),
    ("first", &[List], Any),
    ("last", &[List], Any),
    ("index", &[List, Small], Any),
    ("get", &[Map, Key], Any),
    ("dig", &[Key, Text, Map], Any),
    ("index", &[Map, Key], Any),
    ("add", &[Number, Number], Number),
    ("sub", &[Number, Number], Number),
    ("mul", &[Number, Number], Number),
    ("div", &[Number, Number], Number),
    ("mod", &[Number, Number], Number),
    ("max", &[Number, Number], Number),
    ("min", &[Number, Number], Number),
    ("add1", &[Number], Number),
    ("addf", &[Number, Number], Number),
    ("mulf", &[Number, Number], Number),
    ("divf", &[Number, Number], Number),
    ("round", &[Number, Small], Number),
    ("floor", &[Number], Number),
    ("ceil", &[Number], Number),
    ("int", &[Any], Number),
    ("int64", &[Any], Number),
    ("float64", &[Any], Number),
    ("toDecimal", &[Text], Number),
    ("atoi", &[Text], Number),
    ("len", &[Text], Number),
    ("len", &[List], Number),
    ("len", &[Map], Number),
    ("empty", &[Any], Bool),
    ("not", &[Any], Bool),
    ("and", &[Any, Any], Any),
    ("or", &[Any, Any], Any),
    ("eq", &[Text, Text], Bool),
    ("eq", &[Any, Any], Bool),
    ("ne", &[Number, Number], Bool),
    ("lt", &[Text, Text], Bool),
    ("gt", &[Number, Number], Bool),
    ("contains", &[Text, Text], Bool),
    ("hasPrefix", &[Text, Text], Bool),
    ("hasSuffix", &[Text, Text], Bool),
    ("hasKey", &[Map, Key], Bool),
    ("has", &[Any, List], Bool),
    ("kindIs", &[Text, Any], Bool),
    ("typeIs", &[Text, Any], Bool),
    ("deepEqual", &[Any, Any], Bool),
    ("semverCompare", &[Constraint, Version], Bool),
    ("all", &[Any, Any], Bool),
    ("any", &[Any, Any], Bool),
    ("list", &[Any, Any], List),
    ("append", &[List, Any], List),
    ("prepend", &[List, Any], List),
    ("concat", &[List, List], List),
    ("without", &[List, Any], List),
    ("uniq", &[List], List),
    ("compact", &[List], List),
    ("reverse", &[List], List),
    ("rest", &[List], List),
    ("initial", &[List], List),
    ("slice", &[List, Small], List),
    ("chunk", &[Small, List], List),
    ("sortAlpha", &[List], List),
    ("toStrings", &[List], List),
    ("splitList", &[Text, Text], List),
    ("keys", &[Map], List),
    ("values", &[Map], List),
    ("until", &[Small], List),
    ("untilStep", &[Small, Small, Small], List),
    ("regexSplit", &[Pattern, Text, Small], List),
    ("regexFindAll", &[Pattern, Text, Small], List),
    ("fromYamlArray", &[Text], List),
    ("fromJsonArray", &[Text], List),
    ("pluck", &[Key, Map, Map], List),
    ("dict", &[Key, Any], Map),
    ("dict", &[Key, Any, Key, Any], Map),
    ("set", &[Map, Key, Any], Map),
    ("unset", &[Map, Key], Map),
    ("pick", &[Map, Key, Key], Map),
    ("omit", &[Map, Key], Map),
    ("merge", &[Fresh, Map], Map),
    ("mergeOverwrite", &[Fresh, Map], Map),
    ("mustMerge", &[Fresh, Map, Map], Map),
    ("deepCopy", &[Map], Map),
    ("fromYaml", &[Text], Map),
    ("fromJson", &[Text], Map),
    ("splitn", &[Text, Small, Text], Map),
    ("split", &[Text, Text], Map),
    ("urlParse", &[Text], Map),
];

/// Writes one template.
pub struct Writer<'r> {
    random: &'r mut Random,
    /// Partials that may be included: those of smaller numbers, so that every chain ends.
    partials: usize,
    variables: Vec<(String, Kind)>,
    counter: usize,
    in_loop: bool,
}

impl<'r> Writer<'r> {
    pub fn new(random: &'r mut Random, partials: usize) -> Self {
        Writer {
            random,
            partials,
            variables: Vec::new(),
            counter: 0,
            in_loop: false,
        }
    }

    /// A few statements.
    pub fn body(&mut self, depth: usize) -> String {
        let mut text = String::new();
        let known = self.variables.len();
        for _ in 0..=self.random.below(3) {
            text.push_str(&self.statement(depth));
        }
        self.variables.truncate(known);
        text
    }

    fn statement(&mut self, depth: usize) -> String {
        let (open, close) = (self.mark("{{", "{{- "), self.mark("}}", " -}}"));
        let choice = if depth == 0 {
            self.random.below(7)
        } else {
            self.random.below(14)
        };
        match choice {
            0 => (*self
                .random
                .pick(&["text ", "\n", "  - x: y\n", "é{ }", "", "\t"]))
            .to_owned(),
            1..=4 => {
                let kind = *self.random.pick(&KINDS);
                format!("{open}{}{close}", self.pipeline(kind, depth.max(1)))
            }
            5 => {
                let kind = *self.random.pick(&KINDS);
                let value = self.expression(kind, 2);
                let name = format!("$v{}", self.counter);
                self.counter += 1;
                self.variables.push((name.clone(), kind));
                format!("{open}{name} := {value}{close}")
            }
            6 => match self.variables.last().cloned() {
                Some((name, kind)) => format!("{open}{name} = {}{close}", self.expression(kind, 1)),
                None => (*self
                    .random
                    .pick(&["{{/* a note */}}", "{{- /* a note */ -}}"]))
                .to_owned(),
            },
            7 => {
                let condition = self.expression(Any, depth);
                let (yes, no) = (self.body(depth - 1), self.body(depth - 1));
                let other = match self.random.below(3) {
                    0 => format!("{{{{ else if {} }}}}{no}", self.expression(Bool, 1)),
                    1 => format!("{{{{ else }}}}{no}"),
                    _ => String::new(),
                };
                format!("{open}if {condition}{close}{yes}{other}{{{{ end }}}}")
            }
            8 => {
                let value = self.expression(Any, depth);
                let shown = *self
                    .random
                    .pick(&["{{ . }}", "{{ toJson . }}", "{{ $.Values.s1 }}"]);
                format!("{open}with {value}{close}{shown}{{{{ else }}}}none{{{{ end }}}}")
            }
            9..=10 => self.range(depth),
            11 if self.partials > 0 => {
                let name = PARTIALS[self.random.below(self.partials)];
                let context = *self.random.pick(&[".", "$", "."]);
                let after =
                    *self
                        .random
                        .pick(&["", " | nindent 4", " | indent 2 | trim", " | quote"]);
                match self.random.one_in(4) {
                    true => format!("{{{{ template {name:?} $ }}}}"),
                    false => format!("{open}include {name:?} {context}{after}{close}"),
                }
            }
            12 => {
                let source = *self.random.pick(&[
                    ".Values.t1",
                    ".Values.t2",
                    "(print \"{{ include \\\"shelf.over\\\" . }}\" .Release.Name)",
                    "(.Files.Get \"data.txt\" | replace \".x\" \".Values.s1\")",
                    "\"{{ .Values.s1 | upper }}\"",
                    "(toYaml .Values.m2)",
                    "(printf \"{{ %s }}\" \".Release.Name\")",
                ]);
                format!("{open}tpl {source} ${close}")
            }
            _ => {
                let source = self.expression(Any, 1);
                format!(
                    "{open}{source} | toYaml | nindent {}{close}",
                    self.random.below(6)
                )
            }
        }
    }

    fn range(&mut self, depth: usize) -> String {
        let over = *self.random.pick(&[List, Map]);
        if self.random.one_in(5) {
            let count = self.atom(Small);
            return format!("{{{{ range {count} }}}}{{{{ . }}}},{{{{ end }}}}");
        }
        let over = self.expression(over, 1);
        let (key, value) = (format!("$k{}", self.counter), format!("$e{}", self.counter));
        self.counter += 1;
        let outer = std::mem::replace(&mut self.in_loop, true);
        self.variables.push((value.clone(), Any));
        let body = match self.random.below(3) {
            0 => format!("{{{{ {key} }}}}={{{{ toJson {value} }}}};"),
            1 => format!(
                "{{{{ if eq (toString {key}) \"1\" }}}}{{{{ continue }}}}{{{{ end }}}}{{{{ {value} }}}}"
            ),
            _ => format!("{{{{ with $ }}}}{}{{{{ end }}}}", self.body(depth - 1)),
        };
        self.variables.pop();
        self.in_loop = outer;
        format!("{{{{- range {key}, {value} := {over} }}}}{body}{{{{ else }}}}empty{{{{ end }}}}")
    }

    fn mark(&mut self, plain: &str, trimmed: &str) -> String {
        match self.random.one_in(3) {
            true => trimmed.to_owned(),
            false => format!(
                "{}{plain}{}",
                if plain == "}}" { " " } else { "" },
                if plain == "{{" { " " } else { "" }
            ),
        }
    }

    /// An expression, with its last argument piped in now and then.
    fn pipeline(&mut self, kind: Kind, depth: usize) -> String {
        let inner = self.expression(kind, depth);
        match self.random.below(4) {
            0 => format!("{inner} | toJson"),
            1 => format!("{inner} | quote"),
            2 => format!("{inner} | default {}", self.expression(Text, 0)),
            _ => inner,
        }
    }

    fn expression(&mut self, kind: Kind, depth: usize) -> String {
        // Once in a while something that does not fit, for the errors.
        let kind = match self.random.one_in(150) {
            true => *self.random.pick(&KINDS),
            false => kind,
        };
        if depth == 0 || self.random.one_in(3) {
            return self.atom(kind);
        }
        let fitting: Vec<_> = FUNCTIONS
            .iter()
            .filter(|(_, _, gives)| *gives == kind || kind == Any)
            .collect();
        if fitting.is_empty() {
            return self.atom(kind);
        }
        let (name, takes, _) = *self.random.pick(&fitting);
        let args: Vec<String> = takes
            .iter()
            .map(|kind| self.expression(*kind, depth - 1))
            .collect();
        // Go walks these maps in any order.
        match *name {
            "keys" | "values" => format!("({name} {} | sortAlpha)", args.join(" ")),
            _ => format!("({name} {})", args.join(" ")),
        }
    }

    fn atom(&mut self, kind: Kind) -> String {
        if self.random.one_in(4) {
            let found = self.variables.iter().rev().find(|(_, of)| *of == kind);
            if let Some((name, _)) = found {
                return name.clone();
            }
        }
        let value = |name: &str| format!("$.Values.{name}");
        match kind {
            Text if self.random.one_in(2) => value(self.random.pick::<&str>(TEXTS)),
            Text => (*self.random.pick(&[
                "\"\"",
                "\"a-b.c/d e\"",
                "\"Ünï\"",
                "`raw \"x\"`",
                "\"1.5\"",
                "\"a: [1, {b: c}]\"",
                "\"true\"",
                "\"line\\nline\"",
                "$.Release.Name",
                "$.Chart.Name",
                "$.Chart.Version",
                "$.Template.Name",
                "$.Release.Namespace",
                "$.Capabilities.KubeVersion.Version",
                "($.Files.Get \"data.txt\")",
                "($.Files.Get \"conf/b.ini\")",
                "(($.Files.Glob \"conf/*\").AsConfig)",
                "(($.Files.Glob \"**/*.bin\").AsSecrets)",
                "(include \"shelf.merged\" (list $ \"shelf.over\"))",
                "(toYaml (lookup \"v1\" \"Secret\" \"ns\" \"name\"))",
                "($.Values.YAML)",
                "$.Template.BasePath",
                "\"https://u:p@host:8/p?q=1#f\"",
                "\"null\"",
            ]))
            .to_owned(),
            Number if self.random.one_in(2) => value(self.random.pick::<&str>(NUMBERS)),
            Number => (*self
                .random
                .pick(&["0", "1", "-3", "42", "2.5", "1e3", "0x1F", "'a'", "1000000"]))
            .to_owned(),
            Bool if self.random.one_in(2) => value(self.random.pick::<&str>(BOOLS)),
            Bool => (*self.random.pick(&[
                "true",
                "false",
                "$.Release.IsInstall",
                "($.Capabilities.APIVersions.Has \"v1\")",
                "($.Capabilities.APIVersions.Has \"widgets.example.com/v1\")",
                "$.Chart.IsRoot",
                "(hasKey $.Subcharts \"one\")",
            ]))
            .to_owned(),
            List if self.random.one_in(2) => value(self.random.pick::<&str>(LISTS)),
            List => (*self.random.pick(&[
                "list",
                "(list 3 1 2)",
                "(list \"b\" \"a\" \"b\")",
                "(list nil \"\" 0 $.Values.s1)",
                "(until 3)",
                "($.Files.Lines \"data.txt\")",
            ]))
            .to_owned(),
            Map if self.random.one_in(2) => value(self.random.pick::<&str>(MAPS)),
            Map => (*self.random.pick(&[
                "dict",
                "(dict \"a\" 1 \"b\" (list 1 2))",
                "(dict \"nested\" (dict \"a\" nil))",
                // A copy: put into itself, the real helm copies it until the memory is used up.
                "(omit $.Values.AsMap \"global\" | deepCopy)",
                "(fromYaml (include \"shelf.over\" $))",
            ]))
            .to_owned(),
            Fresh => (*self.random.pick(&[
                "dict",
                "(dict \"a\" 1)",
                "(deepCopy $.Values.m1)",
                "(dict \"nested\" (dict \"b\" 2))",
            ]))
            .to_owned(),
            Small => (*self.random.pick(&["0", "1", "2", "3", "7"])).to_owned(),
            Key => format!("{:?}", self.random.pick(KEYS)),
            Pattern => {
                (*self
                    .random
                    .pick(&["`[a-z]+`", "`^(\\w)(.*)$`", "`\\d`", "`a|b`", "\"\"", "`[`"]))
                .to_owned()
            }
            Format => (*self.random.pick(&[
                "\"%v\"",
                "\"%s\"",
                "\"%d\"",
                "\"%5.2f|\"",
                "\"%q\"",
                "\"%T\"",
                "\"%x\"",
                "\"%-6v|\"",
                "\"%%\"",
                "\"%+v\"",
                "\"%t\"",
            ]))
            .to_owned(),
            Constraint => (*self.random.pick(&[
                "\">=1.2\"",
                "\"^1.0.0-0\"",
                "\"~2.1 || 3.x\"",
                "\"1.2 - 1.4\"",
            ]))
            .to_owned(),
            Version => (*self.random.pick(&[
                "$.Capabilities.KubeVersion.Version",
                "\"1.2.3\"",
                "\"v3.0\"",
                "$.Chart.Version",
            ]))
            .to_owned(),
            Any => match self.random.below(4) {
                0 => value(self.random.pick::<&str>(OTHERS)),
                1 => "$.Values.m1.nested.a".to_owned(),
                _ => {
                    let kind = *self.random.pick(&[Text, Number, Bool, List, Map]);
                    self.atom(kind)
                }
            },
        }
    }
}
