//! Whether a refusal means that a field cannot change.

use everflow_runtime::Error as ClientError;

/// How servers, webhooks and rules say so.
const WORDS: [&str; 9] = [
    "is immutable",
    "immutable field",
    "may not change once set",
    "may not be changed",
    "cannot be changed",
    "cannot change roleRef",
    "updates to statefulset spec for fields other than",
    "pod updates may not change fields other than",
    "are forbidden",
];

/// Whether nothing but recreating the object would help. A plain mistake in an object is none:
/// deleting a healthy object for it would be the greater harm.
pub fn is_immutable(error: &ClientError) -> bool {
    let Some(refusal) = error.refusal() else {
        return false;
    };
    let says = |text: &str| WORDS.iter().any(|words| text.contains(words));
    let causes = refusal.details["causes"].as_array();
    match (error, causes) {
        (ClientError::Invalid(_), Some(causes)) if !causes.is_empty() => {
            let mut messages = causes.iter().map(|cause| cause["message"].as_str());
            messages.all(|message| message.is_some_and(says))
        }
        (ClientError::Invalid(_), _) => says(&refusal.message),
        (ClientError::Forbidden(_) | ClientError::Refused(_) | ClientError::ServerError(_), _) => {
            refusal.message.contains("is immutable") || refusal.message.contains("immutable field")
        }
        _ => false,
    }
}
