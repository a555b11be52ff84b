//! Control structures and definitions.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;

use super::ast::{Action, Body, Branch, Command, Expr, Node, Pipe, TemplateCall, Tree, Variable};
use super::lexer::{Delimiters, Kind, Lexer, Token};
use super::number::Number;
use crate::error::Error;
use crate::function::Functions;
use crate::gofmt::{quote, unquote};
use crate::meter::{Meter, text_bytes};
use crate::stack::StackMeter;
use crate::text::GoStr;

/// Native stack a parse may use.
const STACK_BUDGET: usize = 1 << 20;

/// The largest template text.
const MAX_SOURCE: usize = 1 << 30;

/// The most variables that may be defined at a place: each use looks through them.
pub(super) const MAX_VARIABLES: usize = 10_000;

/// The tree is charged in pieces of at least this size.
const PIECE: usize = 64 << 10;

/// What a text was parsed to.
pub(crate) struct Parse {
    /// The templates by name: the one that the text is called, and those it defines.
    pub trees: HashMap<GoStr, Arc<Tree>>,
    /// The bytes that they were charged for.
    pub bytes: usize,
}

/// Parses a text.
pub(crate) fn parse(
    name: &str,
    source: &Arc<[u8]>,
    delimiters: &Delimiters,
    functions: &Functions,
    meter: &Meter<'_>,
) -> Result<Parse, Error> {
    let loop_keywords = (
        functions.get("break").is_none(),
        functions.get("continue").is_none(),
    );
    let mut parser = Parser {
        file: name.into(),
        text: source,
        source: Arc::clone(source),
        lexer: Lexer::new(source, delimiters, loop_keywords),
        functions,
        scope: Scope::new(),
        trees: HashMap::new(),
        names: HashMap::from([(GoStr::from_static("$"), 0)]),
        nodes: Vec::new(),
        commands: Vec::new(),
        operands: Vec::new(),
        stack: StackMeter::start(STACK_BUDGET),
        meter,
        charged: 0,
        uncharged: 0,
    };
    if source.len() > MAX_SOURCE {
        return Err(parser.error("the template is larger than 1 GiB"));
    }
    let root = parser.top_level()?;
    parser.add(GoStr::new(name), root)?;
    parser.charge()?;
    Ok(Parse {
        trees: parser.trees,
        bytes: parser.charged,
    })
}

/// What Go keeps per tree while it parses: a definition inside a text starts afresh and the outer
/// one continues with its own, which shows in line numbers of errors.
pub(super) struct Scope {
    tokens: [Token; 3],
    peeked: usize,
    /// Variables defined at the moment.
    pub variables: Vec<u32>,
    action_line: usize,
    range_depth: usize,
}

impl Scope {
    fn new() -> Self {
        Scope {
            tokens: [Token::NONE; 3],
            peeked: 0,
            // The name with number 0 is always "$".
            variables: vec![0],
            action_line: 0,
            range_depth: 0,
        }
    }
}

/// How a body ended.
enum Ending {
    End,
    Else,
}

impl Ending {
    fn text(&self) -> &'static str {
        match self {
            Ending::End => "{{end}}",
            Ending::Else => "{{else}}",
        }
    }
}

enum Item {
    Node(Node),
    Ending(Ending),
}

/// The control structures with a body.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Control {
    If,
    Range,
    With,
}

impl Control {
    fn word(self) -> &'static str {
        match self {
            Control::If => "if",
            Control::Range => "range",
            Control::With => "with",
        }
    }
}

pub(super) struct Parser<'s> {
    file: Arc<str>,
    pub text: &'s [u8],
    source: Arc<[u8]>,
    lexer: Lexer<'s>,
    pub functions: &'s Functions,
    pub scope: Scope,
    trees: HashMap<GoStr, Arc<Tree>>,
    /// The numbers of variable names.
    names: HashMap<GoStr, u32>,
    /// What belongs to parts that are not complete yet: collected here, they are moved into lists of
    /// just their size when their end is found.
    nodes: Vec<Node>,
    pub commands: Vec<Command>,
    pub operands: Vec<Expr>,
    pub stack: StackMeter,
    meter: &'s Meter<'s>,
    charged: usize,
    uncharged: usize,
}

pub(super) type Parsed<T> = Result<T, Error>;

impl<'s> Parser<'s> {
    // Tokens.

    fn read(&mut self) -> Token {
        let token = self.lexer.next_token();
        self.uncharged += tree_bytes(token);
        token
    }

    /// Charges the tree for the tokens that have been read, once there are many.
    pub fn charge_tokens(&mut self) -> Parsed<()> {
        match self.uncharged < PIECE {
            true => Ok(()),
            false => self.charge(),
        }
    }

    fn charge(&mut self) -> Parsed<()> {
        let bytes = std::mem::take(&mut self.uncharged);
        if let Err(source) = self.meter.add_buffer(bytes) {
            return Err(Error::Exceeded {
                name: self.file.to_string(),
                line: self.scope.tokens[0].line,
                source,
            });
        }
        self.charged += bytes;
        Ok(())
    }

    pub fn next(&mut self) -> Token {
        if self.scope.peeked > 0 {
            self.scope.peeked -= 1;
        } else {
            self.scope.tokens[0] = self.read();
        }
        self.scope.tokens[self.scope.peeked]
    }

    pub fn backup(&mut self) {
        self.scope.peeked += 1;
    }

    /// Puts back a token that stood before the one last read.
    pub fn backup2(&mut self, token: Token) {
        self.scope.tokens[1] = token;
        self.scope.peeked = 2;
    }

    /// Puts back two tokens that stood before the one last read.
    pub fn backup3(&mut self, earlier: Token, later: Token) {
        self.scope.tokens[1] = later;
        self.scope.tokens[2] = earlier;
        self.scope.peeked = 3;
    }

    pub fn peek(&mut self) -> Token {
        if self.scope.peeked == 0 {
            self.scope.peeked = 1;
            self.scope.tokens[0] = self.read();
        }
        self.scope.tokens[self.scope.peeked - 1]
    }

    pub fn next_non_space(&mut self) -> Token {
        loop {
            let token = self.next();
            if token.kind != Kind::Space {
                return token;
            }
        }
    }

    pub fn peek_non_space(&mut self) -> Token {
        let token = self.next_non_space();
        self.backup();
        token
    }

    pub fn token_text(&self, token: Token) -> &'s [u8] {
        self.text.get(token.start..token.end).unwrap_or(&[])
    }

    // Errors.

    pub fn error(&self, message: impl Into<String>) -> Error {
        Error::Parse {
            name: self.file.to_string(),
            line: self.scope.tokens[0].line,
            message: message.into(),
        }
    }

    /// How Go shows a token in a message.
    fn describe(&self, token: Token) -> String {
        let text = self.token_text(token);
        match token.kind {
            Kind::Eof => "EOF".to_owned(),
            Kind::Error => self.lexer.message.clone(),
            kind if kind.is_keyword() => format!("<{}>", String::from_utf8_lossy(text)),
            _ if text.len() > 10 => {
                let mut end = 0;
                for _ in 0..10 {
                    end += crate::gofmt::decode_rune(&text[end..]).1;
                }
                format!("{}...", quote(&text[..end]))
            }
            _ => quote(text),
        }
    }

    pub fn unexpected(&self, token: Token, context: &str) -> Error {
        let shown = self.describe(token);
        if token.kind != Kind::Error {
            return self.error(format!("unexpected {shown} in {context}"));
        }
        let started = self.scope.action_line;
        if started == 0 || started == token.line {
            return self.error(shown);
        }
        let words = match shown.ends_with(" action") {
            true => " started at",
            false => " in action started at",
        };
        self.error(format!("{shown}{words} {}:{started}", self.file))
    }

    fn expect(&mut self, kind: Kind, context: &str) -> Parsed<Token> {
        let token = self.next_non_space();
        match token.kind == kind {
            true => Ok(token),
            false => Err(self.unexpected(token, context)),
        }
    }

    // Names.

    /// The number of a variable name.
    pub fn name_id(&mut self, name: &[u8]) -> u32 {
        if let Some(known) = self.names.get(name) {
            return *known;
        }
        let id = u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        self.names.insert(GoStr::from_bytes(name), id);
        id
    }

    pub fn variable(&mut self, name: &[u8]) -> Variable {
        Variable {
            id: self.name_id(name),
            name: GoStr::from_bytes(name),
        }
    }

    // Templates.

    /// Everything up to the end of the text; definitions may only stand here.
    fn top_level(&mut self) -> Parsed<Body> {
        let start = self.nodes.len();
        while self.peek().kind != Kind::Eof {
            if self.peek().kind == Kind::LeftDelim {
                let delimiter = self.next();
                if self.next_non_space().kind == Kind::Define {
                    self.definition()?;
                    continue;
                }
                self.backup2(delimiter);
            }
            match self.text_or_action()? {
                Item::Node(node) => self.nodes.push(node),
                Item::Ending(ending) => {
                    return Err(self.error(format!("unexpected {}", ending.text())));
                }
            }
        }
        Ok(self.body_from(start))
    }

    /// The nodes since there were `start`.
    fn body_from(&mut self, start: usize) -> Body {
        Body {
            nodes: self.nodes.drain(start..).collect(),
        }
    }

    /// `{{define "name"}} … {{end}}`; the keyword is taken.
    fn definition(&mut self) -> Parsed<()> {
        const CONTEXT: &str = "define clause";
        let outer = std::mem::replace(&mut self.scope, Scope::new());
        let token = self.next_non_space();
        if !matches!(token.kind, Kind::String | Kind::RawString) {
            return Err(self.unexpected(token, CONTEXT));
        }
        let name = self.string_value(token)?;
        self.expect(Kind::RightDelim, CONTEXT)?;
        let (body, ending) = self.body()?;
        if let Ending::Else = ending {
            return Err(self.error(format!("unexpected {} in {CONTEXT}", ending.text())));
        }
        self.add(name, body)?;
        self.scope = outer;
        Ok(())
    }

    /// Adds a template. A blank one gives way to another of the same name.
    fn add(&mut self, name: GoStr, root: Body) -> Parsed<()> {
        let tree = Arc::new(Tree {
            name: name.clone(),
            file: Arc::clone(&self.file),
            source: Arc::clone(&self.source),
            root,
        });
        let text = quote(name.as_bytes());
        match self.trees.entry(name) {
            Entry::Vacant(entry) => {
                entry.insert(tree);
            }
            Entry::Occupied(mut entry) if entry.get().is_blank() => {
                entry.insert(tree);
            }
            Entry::Occupied(_) if tree.is_blank() => {}
            Entry::Occupied(_) => {
                let message = format!("template: multiple definition of template {text}");
                return Err(self.error(message));
            }
        }
        Ok(())
    }

    /// Nodes up to `{{end}}` or `{{else}}`.
    fn body(&mut self) -> Parsed<(Body, Ending)> {
        if self.stack.is_exhausted() {
            return Err(self.error("control structures nest too deep"));
        }
        let start = self.nodes.len();
        while self.peek_non_space().kind != Kind::Eof {
            match self.text_or_action()? {
                Item::Node(node) => self.nodes.push(node),
                Item::Ending(ending) => return Ok((self.body_from(start), ending)),
            }
        }
        Err(self.error("unexpected EOF"))
    }

    fn text_or_action(&mut self) -> Parsed<Item> {
        self.charge_tokens()?;
        let token = self.next_non_space();
        match token.kind {
            Kind::Text => Ok(Item::Node(Node::Text(at(token.start), at(token.end)))),
            Kind::LeftDelim => {
                self.scope.action_line = token.line;
                let item = self.action()?;
                self.scope.action_line = 0;
                Ok(item)
            }
            _ => Err(self.unexpected(token, "input")),
        }
    }

    fn action(&mut self) -> Parsed<Item> {
        let token = self.next_non_space();
        let node = match token.kind {
            Kind::Block => self.block()?,
            Kind::Break => self.loop_exit("{{break}}", Node::Break)?,
            Kind::Continue => self.loop_exit("{{continue}}", Node::Continue)?,
            Kind::Else => return self.else_control().map(Item::Ending),
            Kind::End => {
                self.expect(Kind::RightDelim, "end")?;
                return Ok(Item::Ending(Ending::End));
            }
            Kind::If => self.control(Control::If)?,
            Kind::Range => self.control(Control::Range)?,
            Kind::With => self.control(Control::With)?,
            Kind::Template => self.template_call()?,
            _ => {
                self.backup();
                let position = at(self.peek().start);
                // Variables declared here live until the enclosing end.
                let pipe = self.pipeline("command", Kind::RightDelim)?;
                Node::Action(Action { position, pipe })
            }
        };
        Ok(Item::Node(node))
    }

    fn loop_exit(&mut self, text: &str, node: Node) -> Parsed<Node> {
        let token = self.next_non_space();
        if token.kind != Kind::RightDelim {
            return Err(self.unexpected(token, text));
        }
        match self.scope.range_depth {
            0 => Err(self.error(format!("{text} outside {{{{range}}}}"))),
            _ => Ok(node),
        }
    }

    fn else_control(&mut self) -> Parsed<Ending> {
        // "else if" and "else with" leave the second word for the enclosing structure.
        if !matches!(self.peek_non_space().kind, Kind::If | Kind::With) {
            self.expect(Kind::RightDelim, "else")?;
        }
        Ok(Ending::Else)
    }

    fn control(&mut self, control: Control) -> Parsed<Node> {
        let branch = Box::new(self.branch(control)?);
        Ok(match control {
            Control::If => Node::If(branch),
            Control::Range => Node::Range(branch),
            Control::With => Node::With(branch),
        })
    }

    fn branch(&mut self, control: Control) -> Parsed<Branch> {
        let variables = self.scope.variables.len();
        let pipe = self.pipeline(control.word(), Kind::RightDelim)?;
        let in_range = usize::from(control == Control::Range);
        self.scope.range_depth += in_range;
        let (body, ending) = self.body()?;
        self.scope.range_depth -= in_range;
        let otherwise = match ending {
            Ending::End => None,
            Ending::Else => Some(self.otherwise(control)?),
        };
        self.scope.variables.truncate(variables);
        Ok(Branch {
            position: pipe.position,
            pipe,
            body,
            otherwise,
        })
    }

    /// What follows `{{else}}`. `{{else if}}` is an `if` alone in the else part.
    fn otherwise(&mut self, control: Control) -> Parsed<Body> {
        let chained = matches!(
            (control, self.peek().kind),
            (Control::If, Kind::If) | (Control::With, Kind::With)
        );
        if chained {
            self.next();
            return Ok(Body {
                nodes: vec![self.control(control)?],
            });
        }
        match self.body()? {
            (body, Ending::End) => Ok(body),
            (_, ending) => Err(self.error(format!("expected end; found {}", ending.text()))),
        }
    }

    /// `{{block "name" pipeline}} … {{end}}`: a definition and its call.
    fn block(&mut self) -> Parsed<Node> {
        const CONTEXT: &str = "block clause";
        let token = self.next_non_space();
        let name = self.template_name(token, CONTEXT)?;
        let pipe = self.pipeline(CONTEXT, Kind::RightDelim)?;
        let outer = std::mem::replace(&mut self.scope, Scope::new());
        let (body, ending) = self.body()?;
        let inner = std::mem::replace(&mut self.scope, outer);
        if let Ending::Else = ending {
            return Err(self.error(format!("unexpected {} in {CONTEXT}", ending.text())));
        }
        let outer = std::mem::replace(&mut self.scope, inner);
        self.add(name.clone(), body)?;
        self.scope = outer;
        Ok(self.call_node(token, name, Some(pipe)))
    }

    fn template_call(&mut self) -> Parsed<Node> {
        const CONTEXT: &str = "template clause";
        let token = self.next_non_space();
        let name = self.template_name(token, CONTEXT)?;
        let mut pipe = None;
        if self.next_non_space().kind != Kind::RightDelim {
            self.backup();
            pipe = Some(self.pipeline(CONTEXT, Kind::RightDelim)?);
        }
        Ok(self.call_node(token, name, pipe))
    }

    fn call_node(&self, token: Token, name: GoStr, pipe: Option<Pipe>) -> Node {
        Node::Template(Box::new(TemplateCall {
            position: at(token.start),
            name,
            pipe,
        }))
    }

    fn template_name(&mut self, token: Token, context: &str) -> Parsed<GoStr> {
        match token.kind {
            Kind::String | Kind::RawString => self.string_value(token),
            _ => Err(self.unexpected(token, context)),
        }
    }

    pub fn string_value(&self, token: Token) -> Parsed<GoStr> {
        match unquote(self.token_text(token)) {
            Ok(text) => Ok(GoStr::from_vec(text)),
            Err(message) => Err(self.error(message)),
        }
    }
}

/// About the bytes of the tree that a token adds, with the lists that grow while they are filled.
fn tree_bytes(token: Token) -> usize {
    let text = text_bytes(token.end - token.start);
    match token.kind {
        Kind::Text => 2 * size_of::<Node>(),
        Kind::LeftDelim => 2 * size_of::<Node>() + size_of::<Command>() + 32,
        Kind::LeftParen => size_of::<Pipe>() + 2 * size_of::<Command>() + 48,
        Kind::Pipe => 2 * size_of::<Command>() + 16,
        Kind::If | Kind::With | Kind::Range | Kind::Block | Kind::Template => {
            size_of::<Branch>() + 16
        }
        Kind::Number | Kind::CharConstant | Kind::Complex => {
            2 * size_of::<Expr>() + size_of::<Number>() + 16 + text
        }
        Kind::Define => size_of::<Tree>() + 64,
        Kind::String | Kind::RawString => 2 * size_of::<Expr>() + 2 * text,
        Kind::Variable => 2 * size_of::<Expr>() + 64 + 2 * text,
        Kind::Bool | Kind::Dot | Kind::Field | Kind::Identifier | Kind::Nil => {
            2 * size_of::<Expr>() + 16 + text
        }
        _ => 0,
    }
}

/// An offset in the form nodes keep it.
pub(super) fn at(offset: usize) -> u32 {
    u32::try_from(offset).unwrap_or(u32::MAX)
}
