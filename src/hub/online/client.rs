//! Questions to the Hub: one address after the other along redirects, the token for the Hub alone, and one sentence for each
//! refusal. The headers are those of `huggingface_hub`'s `file_download.py` and `errors.py`.

use super::ModelId;
use super::settings::Settings;
use crate::error::{Error, Result};
use std::time::Duration;
use ureq::http::header::{ACCEPT_ENCODING, AUTHORIZATION, LOCATION, RANGE, RETRY_AFTER, USER_AGENT};
use ureq::http::{Response, StatusCode, Uri};
use ureq::tls::{Certificate, RootCerts, TlsConfig};
use ureq::{Agent, Body};

/// For a connection, and for the next bytes of an answer: none takes longer on a line that works.
const PATIENCE: Duration = Duration::from_secs(30);
const REDIRECTS: usize = 10;
/// A list of files is not longer.
const LONGEST_LIST: u64 = 32 << 20;

/// What asks.
pub struct Client {
    agent: Agent,
    endpoint: String,
    token: Option<String>,
    /// Of the proxy, for messages.
    way: String,
}

/// Why there was no answer.
pub enum Failure {
    /// The connection did not come about or broke: it may work the next time.
    Broken(String),
    /// The server has no such answer, and will not have it the next time.
    Refused(Error),
}

impl Client {
    pub fn new(settings: &Settings) -> Result<Self> {
        // Statuses have their own messages here, and redirects their own rules.
        let config = Agent::config_builder()
            .http_status_as_error(false)
            .max_redirects(0)
            .proxy(settings.proxy.clone())
            .tls_config(TlsConfig::builder().root_certs(roots(settings)?).build())
            .timeout_connect(Some(PATIENCE))
            .timeout_per_read(Some(PATIENCE))
            .timeout_per_write(Some(PATIENCE));
        let way = settings
            .proxy
            .as_ref()
            .map(|proxy| format!(" through the proxy {}:{}", proxy.host(), proxy.port()));
        Ok(Client {
            agent: config.build().into(),
            endpoint: settings.endpoint.clone(),
            token: settings.token.clone(),
            way: way.unwrap_or_default(),
        })
    }

    /// The address of the Hub.
    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    /// The text at `path`.
    pub fn text(&self, id: &ModelId, path: &str) -> Result<String> {
        let url = format!("{}/{path}", self.endpoint);
        let ask = || {
            let mut response = self.get(id, &url, None, &mut |_| ())?;
            if response.status() != StatusCode::OK {
                return Err(Failure::Refused(self.refusal(id, &url, &response)));
            }
            let body =
                response.body_mut().with_config().limit(LONGEST_LIST).lossy_utf8(true).read_to_string();
            body.map_err(|error| self.broken(&url, &error))
        };
        ask().map_err(|failure| match failure {
            Failure::Refused(error) => error,
            Failure::Broken(what) => Error::Hub(format!(
                "{id}: {what}; check the network, HTTPS_PROXY, SSL_CERT_FILE and HF_ENDPOINT (a model that was fetched once needs no network)"
            )),
        })
    }

    /// The answer at `url`, behind all redirects; of a part of it, where `range` asks for one. `see` sees the redirects too.
    pub fn get(
        &self,
        id: &ModelId,
        url: &str,
        range: Option<String>,
        see: &mut dyn FnMut(&Response<Body>),
    ) -> Result<Response<Body>, Failure> {
        let mut url = url.to_string();
        for _ in 0..=REDIRECTS {
            let version = concat!("tx/", env!("CARGO_PKG_VERSION"));
            // Identity: a range of packed bytes would be of no use.
            let mut request =
                self.agent.get(&url).header(USER_AGENT, version).header(ACCEPT_ENCODING, "identity");
            if let Some(range) = &range {
                request = request.header(RANGE, range);
            }
            if let Some(token) = self.token.as_ref().filter(|_| origin(&url) == origin(&self.endpoint)) {
                request = request.header(AUTHORIZATION, format!("Bearer {token}"));
            }
            let response = request.call().map_err(|error| self.broken(&url, &error))?;
            see(&response);
            if !response.status().is_redirection() {
                return Ok(response);
            }
            url = redirected(&url, text_of(&response, LOCATION.as_str()).unwrap_or_default())
                .map_err(|what| Failure::Refused(Error::Hub(format!("{id}: {what}"))))?;
        }
        let what = format!("{id}: {} redirects in a circle: check HF_ENDPOINT", self.endpoint);
        Err(Failure::Refused(Error::Hub(what)))
    }

    fn broken(&self, url: &str, error: &ureq::Error) -> Failure {
        Failure::Broken(format!("{} does not answer{} ({error})", origin(url), self.way))
    }

    /// What a status says and what to do about it.
    pub fn refusal(&self, id: &ModelId, url: &str, response: &Response<Body>) -> Error {
        let code = text_of(response, "x-error-code").unwrap_or_default();
        let (page, server) = (format!("{}/{}", self.endpoint, id.name()), origin(url));
        let (name, revision) = (id.name(), id.revision());
        let what = match (response.status().as_u16(), code) {
            (401 | 403, "GatedRepo") if self.token.is_some() => format!(
                "the model is gated and your token has no access yet: accept its terms at {page}, and try again when they are granted"
            ),
            (401 | 403, "GatedRepo") => format!(
                "the model is gated: accept its terms at {page}, make a token at {}/settings/tokens and set HF_TOKEN to it",
                self.endpoint
            ),
            (401, _) if self.token.is_none() => format!(
                "{server} has no model of this name, or it is private: check the name, or set HF_TOKEN to a token that may read it"
            ),
            (401, _) => format!(
                "{server} does not take your token: check HF_TOKEN, or make a new one there (hf auth login)"
            ),
            (403, _) => format!(
                "{server} does not let you read the model: ask for access at {page}, with the account of HF_TOKEN"
            ),
            (404, "RevisionNotFound") => {
                format!("{name} has no revision {revision}: {page}/tree/main lists those it has")
            }
            (404, "EntryNotFound") => format!("{url} is gone: try again"),
            (404, _) => format!("{server} has no model {name} with a revision {revision}: check the name"),
            (429, _) => format!("too many requests for {server}: {}", wait(response)),
            (status @ 500.., _) => format!("{server} is out of order (status {status}): try again later"),
            (status, _) => format!(
                "{server} answers with status {status}, which tx does not understand: check HF_ENDPOINT"
            ),
        };
        Error::Hub(format!("{id}: {what}"))
    }
}

/// The certificates that are trusted to vouch for servers: those of the system, to which companies add their own; on a system without
/// any, those of Mozilla's.
fn roots(settings: &Settings) -> Result<RootCerts> {
    let found = rustls_native_certs::load_native_certs();
    match (found.certs.as_slice(), settings.certificates) {
        ([], Some(variable)) => {
            let cause = found.errors.first().map_or(String::new(), |error| format!(" ({error})"));
            Err(Error::Hub(format!("{variable} names no certificates{cause}: set it right, or unset it")))
        }
        ([], None) => Ok(RootCerts::WebPki),
        (certs, _) => {
            Ok(certs.iter().map(|cert| Certificate::from_der(cert).to_owned()).collect::<Vec<_>>().into())
        }
    }
}

/// How long to wait: `Retry-After` in seconds or as a date, or `t=SECONDS` of the Hub's `RateLimit`.
fn wait(response: &Response<Body>) -> String {
    let seconds = |text: &str| text.trim().parse::<u64>().ok();
    let after = text_of(response, RETRY_AFTER.as_str());
    let limit = || {
        text_of(response, "ratelimit")?.split(';').find_map(|part| seconds(part.trim().strip_prefix("t=")?))
    };
    match (after, after.and_then(seconds).or_else(limit)) {
        (_, Some(seconds)) => format!("wait {seconds} seconds and try again"),
        (Some(date), None) => format!("try again after {date}"),
        (None, None) => "wait some minutes and try again".to_string(),
    }
}

/// A header's text, where it is text.
pub fn text_of<'a>(response: &'a Response<Body>, header: &str) -> Option<&'a str> {
    response.headers().get(header)?.to_str().ok()
}

/// Scheme, host and port of an address.
fn origin(url: &str) -> &str {
    let start = url.find("://").map_or(0, |at| at + 3);
    url[start..].find(['/', '?', '#']).map_or(url, |length| &url[..start + length])
}

/// Where `location`, in the answer of `url`, leads.
fn redirected(url: &str, location: &str) -> Result<String, String> {
    let scheme = url.split("://").next().unwrap_or_default();
    let folder =
        url.split(['?', '#']).next().and_then(|path| path.rsplit_once('/')).map_or(url, |(folder, _)| folder);
    let target = match location.split('#').next().unwrap_or_default() {
        "" => return Err(format!("{} redirects without saying where to: try again later", origin(url))),
        absolute if absolute.starts_with("http://") || absolute.starts_with("https://") => {
            absolute.to_string()
        }
        other_host if other_host.starts_with("//") => format!("{scheme}:{other_host}"),
        path if path.starts_with('/') => format!("{}{path}", origin(url)),
        relative => format!("{folder}/{relative}"),
    };
    if target.parse::<Uri>().is_err() {
        return Err(format!("{} redirects to {location:?}, which is no address", origin(url)));
    }
    if scheme == "https" && !target.starts_with("https://") {
        return Err(format!(
            "{} redirects to {}, which is not encrypted: refused",
            origin(url),
            origin(&target)
        ));
    }
    Ok(target)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_lead_where_browsers_go() {
        for (location, target) in [
            ("https://cdn.hf.co/x?y=/z#part", "https://cdn.hf.co/x?y=/z"),
            ("//cdn.hf.co/x", "https://cdn.hf.co/x"),
            ("/api/resolve-cache/x", "https://hub:1/api/resolve-cache/x"),
            ("other", "https://hub:1/a/other"),
        ] {
            assert_eq!(redirected("https://hub:1/a/b?c=d/e", location).as_deref(), Ok(target));
        }
        for location in ["", "http://cdn.hf.co/x", "https://", "ftp://x y"] {
            assert!(redirected("https://hub/a", location).is_err(), "{location}");
        }
        assert_eq!(redirected("http://hub/a", "http://cdn/x").as_deref(), Ok("http://cdn/x"));
    }

    #[test]
    fn waiting_is_said_as_the_server_says_it() {
        for (header, value, said) in [
            ("retry-after", "30", "wait 30 seconds"),
            ("retry-after", "Wed, 21 Oct 2026 07:28:00 GMT", "after Wed, 21 Oct 2026"),
            ("ratelimit", "\"api\";r=0;t=42", "wait 42 seconds"),
            ("other", "", "some minutes"),
        ] {
            let response = Response::builder().header(header, value).body(Body::builder().data("")).unwrap();
            assert!(wait(&response).contains(said), "{header}: {}", wait(&response));
        }
    }
}
