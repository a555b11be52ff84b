//! Loading trees: what to load, how strictly, within which limits.

use crate::error::{Error, Limit};
use crate::node::{Comments, Dialect, Node, Position};
use crate::read::{Input, TreeBuilder};

/// What an input may cost before it is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Collections inside collections. Go allows 10,000 of block and 10,000 of flow style; every
    /// function that walks a tree by recursion thanks a lower number.
    pub nesting: usize,
    /// Bytes of one input; never more than 2 GiB.
    pub size: usize,
    /// Nodes that aliases may add when they are replaced by what they stand for, where Go itself
    /// knows no limit.
    pub expansion: usize,
}

impl Limits {
    /// Safe on the stack of a worker thread.
    pub const DEFAULT: Limits = Limits {
        nesting: 1_000,
        size: 256 << 20,
        expansion: 1_000_000,
    };

    /// Only what Go's own limits stop. Dropping or printing the deepest trees that these let
    /// through needs a stack of 64 MiB.
    pub const GO: Limits = Limits {
        nesting: usize::MAX,
        size: (2 << 30) - 8,
        expansion: 1_000_000,
    };

    pub(crate) fn check_size(&self, input: &[u8]) -> Result<(), Error> {
        let most = self.size.min(Limits::GO.size);
        if input.len() <= most {
            return Ok(());
        }
        Err(Error::Limit {
            limit: Limit::Size(most),
            position: Position::default(),
        })
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits::DEFAULT
    }
}

/// One document of a stream.
#[derive(Clone, Debug, Default)]
pub struct Document {
    /// Its top node; null for an empty document.
    pub root: Node,
    /// The comments of the document itself: `head` above the first empty line, `foot` at its end.
    pub comments: Comments,
}

/// Loads trees. Scalars keep their text and style, aliases stay [`crate::Value::Alias`], and every
/// entry of a map is there as written, duplicates and merge keys too.
///
/// ```
/// use everflow_yaml::{Dialect, Loader};
/// let node = Loader::new(Dialect::Kyaml).load(b"on: yes # kept\n")?;
/// assert_eq!(node.get("on").and_then(|node| node.as_str()), Some("yes"));
/// # Ok::<(), everflow_yaml::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Loader {
    dialect: Dialect,
    keep_comments: bool,
    limits: Limits,
    file: Option<String>,
}

impl Loader {
    /// A loader without comments, with the default limits.
    pub fn new(dialect: Dialect) -> Self {
        Loader {
            dialect,
            keep_comments: false,
            limits: Limits::DEFAULT,
            file: None,
        }
    }

    /// Keeps comments on the nodes, as go-yaml v3 places them. Only for [`Dialect::Kyaml`]: v2
    /// drops comments.
    pub fn keep_comments(mut self, keep: bool) -> Self {
        self.keep_comments = keep;
        self
    }

    /// Replaces the limits.
    pub fn limits(mut self, limits: Limits) -> Self {
        self.limits = limits;
        self
    }

    /// Names the input in errors.
    pub fn file(mut self, name: impl Into<String>) -> Self {
        self.file = Some(name.into());
        self
    }

    /// The top node of the first document; null if there is none. What follows the first document
    /// is not even looked at, as in Go.
    pub fn load(&self, input: &[u8]) -> Result<Node, Error> {
        Ok(self
            .load_document(input)?
            .map(|document| document.root)
            .unwrap_or_default())
    }

    /// The first document, and none if there is none: no text, or only comments.
    pub fn load_document(&self, input: &[u8]) -> Result<Option<Document>, Error> {
        self.documents(input, 1).map(|mut all| all.pop())
    }

    /// All documents of one stream, in the way of a YAML parser (`---` and `...`). The Kubernetes
    /// tools cut streams differently: see [`crate::documents`].
    pub fn load_all(&self, input: &[u8]) -> Result<Vec<Document>, Error> {
        self.documents(input, usize::MAX)
    }

    fn documents(&self, input: &[u8], most: usize) -> Result<Vec<Document>, Error> {
        let read = || {
            self.limits.check_size(input)?;
            let input = Input::new(input);
            let mut builder =
                TreeBuilder::new(&input, self.dialect, self.keep_comments, self.limits);
            let mut documents = Vec::new();
            while documents.len() < most
                && let Some(document) = builder.next_document()?
            {
                documents.push(document);
            }
            Ok(documents)
        };
        read().map_err(|error: Error| match &self.file {
            Some(file) => error.in_file(file),
            None => error,
        })
    }
}

/// All documents of a stream, as a parser of the dialect separates them.
pub fn parse_documents(input: &[u8], dialect: Dialect) -> Result<Vec<Document>, Error> {
    Loader::new(dialect).load_all(input)
}
