//! Azure Event Hubs, over their REST API.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::hmac;

use super::Outgoing;
use super::settings::Settings;
use super::webhook::{Webhook, unsendable};
use crate::exchange::{Exchange, Request};
use crate::url::{Part, Url, escape};

const CONTEXT: &str = "failed to send msg: ";
const SUFFIX: &str = ".servicebus.windows.net";
const CONTENT_TYPE: &str = "application/atom+xml;type=entry;charset=utf-8";
const QUERY: &str = "timeout=60&api-version=2014-01";
/// How long a signature is good for, in seconds.
const LIFETIME: i64 = 3_600;

/// The key in a connection string, if the address is one.
pub(crate) fn shared_key(address: &str) -> Option<String> {
    field(address, "SharedAccessKey").map(str::to_owned)
}

fn field<'a>(connection: &'a str, wanted: &str) -> Option<&'a str> {
    let fields = connection
        .split(';')
        .filter_map(|field| field.split_once('='));
    let mut found = fields.filter(|(name, _)| name.trim().eq_ignore_ascii_case(wanted));
    found.next().map(|(_, value)| value.trim())
}

pub(super) fn event_hub(
    settings: &Settings,
    outgoing: &Outgoing<'_>,
) -> Result<Box<dyn Exchange>, String> {
    let address = settings.address.reveal();
    check(settings).map_err(|why| format!("invalid authentication options: {why}"))?;
    let (host, hub, authorization) = match is_connection_string(address) {
        true => signed(address, outgoing.context.now.seconds)
            .map_err(|why| format!("failed to create a eventhub using SAS: {why}"))?,
        false => {
            let token = settings.token.reveal();
            if token.is_empty() {
                let why = super::without_identity("Azure Event Hubs");
                return Err(format!(
                    "failed to create a eventhub using managed identity: {why}"
                ));
            }
            (
                host(&settings.channel),
                address.to_owned(),
                format!("Bearer {token}"),
            )
        }
    };
    let hub = escape(&hub, Part::Segment);
    // The hub's name may be all of an address in a Secret.
    let target = settings
        .address
        .with_api_text(format!("https://{host}/{hub}/messages?{QUERY}"));
    let request = Request::new(http::Method::POST, target)
        .body(CONTENT_TYPE, outgoing.event.to_json().into_bytes());
    Ok(
        match request
            .clone()
            .secret_header("authorization", &authorization)
        {
            Ok(request) => Box::new(Webhook::new(CONTEXT, request)),
            Err(why) => Box::new(unsendable(CONTEXT, &request, &why)),
        },
    )
}

fn is_connection_string(address: &str) -> bool {
    address.contains("SharedAccessKey")
}

fn check(settings: &Settings) -> Result<(), &'static str> {
    let has_token = !settings.token.reveal().is_empty();
    let has_account = !settings.service_account.is_empty();
    if settings.address.is_empty() {
        return Err("endpoint URL cannot be empty");
    }
    match is_connection_string(settings.address.reveal()) {
        true if has_account => {
            Err("serviceAccountName and SAS authentication cannot be set at the same time")
        }
        true if has_token => Err("jwt token and SAS authentication cannot be set at the same time"),
        false if has_account && has_token => {
            Err("serviceAccountName and jwt token authentication cannot be set at the same time")
        }
        _ => Ok(()),
    }
}

fn host(namespace: &str) -> String {
    match namespace.contains(".servicebus.") {
        true => namespace.to_owned(),
        false => format!("{namespace}{SUFFIX}"),
    }
}

/// The host, the hub and the signature that a connection string gives.
fn signed(connection: &str, now: i64) -> Result<(String, String, String), String> {
    let wanted = |name: &str| {
        let value = field(connection, name).filter(|value| !value.is_empty());
        value.ok_or_else(|| format!("the connection string has no {name}"))
    };
    let endpoint = Url::parse(wanted("Endpoint")?)
        .map_err(|_| "the Endpoint of the connection string is no address".to_owned())?;
    let hub = wanted("EntityPath")?;
    let (name, key) = (wanted("SharedAccessKeyName")?, wanted("SharedAccessKey")?);
    let host = endpoint.host_name();
    let resource = escape(&format!("https://{host}/{hub}").to_lowercase(), Part::Query);
    let expiry = now + LIFETIME;
    let hmac_key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    let signature = hmac::sign(&hmac_key, format!("{resource}\n{expiry}").as_bytes());
    let signature = escape(&STANDARD.encode(signature.as_ref()), Part::Query);
    let name = escape(name, Part::Query);
    let authorization =
        format!("SharedAccessSignature sr={resource}&sig={signature}&se={expiry}&skn={name}");
    Ok((host.to_owned(), hub.to_owned(), authorization))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_string_gives_host_hub_and_signature() {
        let connection = "Endpoint=sb://x.servicebus.windows.net/;SharedAccessKeyName=send;SharedAccessKey=a+b/c=;EntityPath=hub";
        let (host, hub, authorization) = signed(connection, 1_700_000_000).unwrap();
        assert_eq!(
            (host.as_str(), hub.as_str()),
            ("x.servicebus.windows.net", "hub")
        );
        assert!(authorization.starts_with(
            "SharedAccessSignature sr=https%3A%2F%2Fx.servicebus.windows.net%2Fhub&sig="
        ));
        assert!(authorization.ends_with("&se=1700003600&skn=send"));
        assert_eq!(shared_key(connection).as_deref(), Some("a+b/c="));
    }

    #[test]
    fn missing_connection_string_part_is_named() {
        let refused = signed(
            "Endpoint=sb://x/;SharedAccessKeyName=a;SharedAccessKey=b",
            0,
        )
        .unwrap_err();
        assert_eq!(refused, "the connection string has no EntityPath");
    }
}
