//! What is found.

use everflow_json::{Value, json};

use crate::model::ObjectId;

/// How grave a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// One failure, and recovery itself does not work.
    Error,
    /// One failure stops something critical.
    Warning,
    /// Good to know.
    Note,
}

impl Severity {
    /// The word for it, which is SARIF's.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Note => "note",
        }
    }
}

/// The rules. Their codes are stable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// The only pods of several critical workloads are on one node.
    SharedNode,
    /// The only pods of several critical workloads are in one zone.
    SharedZone,
    /// All replicas of a critical workload are on one node.
    ReplicasTogether,
    /// A webhook without which the pods of its own server cannot start.
    AdmissionDeadlock,
    /// Delivery needs what delivery delivers.
    RecoveryChain,
    /// One replica, on a volume that cannot follow it to another node.
    NodeBoundVolume,
    /// One replica.
    SingleReplica,
    /// Nothing keeps replicas apart.
    NoSpread,
    /// Nothing keeps a drain from stopping all replicas at once.
    NoBudget,
    /// The first to be killed when memory is short.
    BestEffort,
    /// A lease that a slow API server lets run out.
    ShortLease,
}

impl Rule {
    /// Every rule.
    pub const ALL: [Rule; 11] = [
        Rule::SharedNode,
        Rule::SharedZone,
        Rule::ReplicasTogether,
        Rule::AdmissionDeadlock,
        Rule::RecoveryChain,
        Rule::NodeBoundVolume,
        Rule::SingleReplica,
        Rule::NoSpread,
        Rule::NoBudget,
        Rule::BestEffort,
        Rule::ShortLease,
    ];

    /// The stable code.
    pub fn code(self) -> &'static str {
        match self {
            Rule::SharedNode => "SharedNode",
            Rule::SharedZone => "SharedZone",
            Rule::ReplicasTogether => "ReplicasTogether",
            Rule::AdmissionDeadlock => "AdmissionDeadlock",
            Rule::RecoveryChain => "RecoveryChain",
            Rule::NodeBoundVolume => "NodeBoundVolume",
            Rule::SingleReplica => "SingleReplica",
            Rule::NoSpread => "NoSpread",
            Rule::NoBudget => "NoBudget",
            Rule::BestEffort => "BestEffort",
            Rule::ShortLease => "ShortLease",
        }
    }

    /// What it looks for.
    pub fn about(self) -> &'static str {
        match self {
            Rule::SharedNode => {
                "Critical workloads that have all their pods on one node stop together with it."
            }
            Rule::SharedZone => {
                "Critical workloads that have all their pods in one zone stop together with it."
            }
            Rule::ReplicasTogether => "Replicas on one node do not help when it fails.",
            Rule::AdmissionDeadlock => "A webhook must not be needed to start its own server.",
            Rule::RecoveryChain => "What delivers fixes must not depend on what it delivers.",
            Rule::NodeBoundVolume => {
                "A replica whose volume is bound to a node cannot move when that node fails."
            }
            Rule::SingleReplica => "One replica is away whenever its node is.",
            Rule::NoSpread => {
                "Without a preference the scheduler may put all replicas on one node."
            }
            Rule::NoBudget => "Without a budget a drain may stop all replicas at once.",
            Rule::BestEffort => {
                "Pods without requests are killed first when a node is short of memory."
            }
            Rule::ShortLease => {
                "A lease that is short against the API server's latency is lost when that is slow."
            }
        }
    }
}

/// How a patch is written down, so that whatever manages the object does not undo it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// A patch in a kustomization file.
    Kustomize,
    /// A patch in the FluxInstance that the Flux operator makes the object from.
    FluxInstance,
    /// A post-renderer of the HelmRelease that the object comes from.
    HelmRelease,
    /// A further object.
    Object,
}

/// A patch that mends a finding: it was tried on the model, and the finding was gone.
#[derive(Debug, Clone, PartialEq)]
pub struct Fix {
    /// How it is written down.
    pub form: Form,
    /// The object that it is written into, or the one that it makes.
    pub place: String,
    /// The text.
    pub text: String,
}

/// What is to change, before it is written down.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    /// A strategic merge patch of an object.
    Patch(ObjectId, Value),
    /// A further object.
    Add(Value),
}

/// Something that is wrong.
#[derive(Debug, Clone)]
pub struct Finding {
    /// By which rule.
    pub rule: Rule,
    /// How grave it is.
    pub severity: Severity,
    /// The objects it is about, or nodes and zones.
    pub subjects: Vec<String>,
    /// What is wrong and what follows, as a sentence.
    pub message: String,
    /// What to do when there is no patch.
    pub remedy: String,
    /// What mends it.
    pub fix: Option<Fix>,
    pub(crate) changes: Vec<Change>,
}

impl Finding {
    /// What tells it from others.
    pub(crate) fn identity(&self) -> (Rule, &[String]) {
        (self.rule, &self.subjects)
    }

    /// It as JSON.
    pub fn to_value(&self) -> Value {
        let fix = self.fix.as_ref().map_or(Value::Null, |fix| {
            json!({"form": format!("{:?}", fix.form), "place": fix.place, "text": fix.text, "proven": true})
        });
        json!({
            "rule": self.rule.code(),
            "severity": self.severity.word(),
            "subjects": self.subjects,
            "message": self.message,
            "remedy": self.remedy,
            "fix": fix,
        })
    }
}
