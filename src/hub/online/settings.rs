//! What the environment says about the Hub, by the names and defaults of `huggingface_hub`: `HF_ENDPOINT`, `HF_HOME`,
//! `HF_HUB_CACHE`, `XDG_CACHE_HOME`, `HF_TOKEN`, `HF_TOKEN_PATH`, `HF_HUB_OFFLINE`, `TRANSFORMERS_OFFLINE`; and by those of
//! curl: `HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`, also in small letters, `SSL_CERT_FILE`, `SSL_CERT_DIR`. hf-hub reads the first two alone, and
//! ureq takes the proxy of https for http and passes over one that it cannot read.

use crate::error::{Error, Result};
use std::path::{Path, PathBuf};
use ureq::Proxy;

const ENDPOINT: &str = "https://huggingface.co";

/// Where the Hub is and where its files go.
#[derive(Debug)]
pub struct Settings {
    /// Address of the Hub, without a slash at its end.
    pub endpoint: String,
    /// Folder of the cache.
    pub cache: PathBuf,
    /// Who asks.
    pub token: Option<String>,
    /// Nothing may be asked: the variable that says so.
    pub offline: Option<&'static str>,
    /// What the requests go through.
    pub proxy: Option<Proxy>,
    /// The variable that says which certificates to trust, if one does; rustls-native-certs reads it.
    pub certificates: Option<&'static str>,
}

impl Settings {
    /// From the variables that `get` gives; `home` is the folder of the user.
    pub fn read(get: impl Fn(&str) -> Option<String>, home: Option<PathBuf>) -> Result<Self> {
        let get = |name: &str| get(name).map(|text| text.trim().to_string()).filter(|text| !text.is_empty());
        let endpoint = get("HF_ENDPOINT").unwrap_or(ENDPOINT.to_string());
        let endpoint = endpoint.trim_end_matches('/').to_string();
        if !["http://", "https://"].iter().any(|scheme| endpoint.starts_with(scheme)) {
            let what = format!("HF_ENDPOINT is {endpoint:?}: expected an address, as {ENDPOINT}");
            return Err(Error::Hub(what));
        }
        let caches =
            || get("XDG_CACHE_HOME").map(PathBuf::from).or_else(|| Some(home.as_ref()?.join(".cache")));
        let folder = get("HF_HOME").map(PathBuf::from).or_else(|| Some(caches()?.join("huggingface")));
        let cache = get("HF_HUB_CACHE").map(PathBuf::from).or_else(|| Some(folder.as_ref()?.join("hub")));
        let Some(cache) = cache else {
            let what = "no home folder is known: set HF_HOME to a folder for models of the Hub";
            return Err(Error::Hub(what.to_string()));
        };
        let token_file = get("HF_TOKEN_PATH").map(PathBuf::from).or_else(|| Some(folder?.join("token")));
        let offline = ["HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"]
            .into_iter()
            .find(|name| get(name).is_some_and(|value| is_true(&value)));
        Ok(Settings {
            token: token(get("HF_TOKEN"), token_file.as_deref())?,
            proxy: proxy(&endpoint, get)?,
            certificates: ["SSL_CERT_FILE", "SSL_CERT_DIR"].into_iter().find(|name| get(name).is_some()),
            endpoint,
            cache: std::path::absolute(&cache).map_err(|error| Error::io(&cache, error))?,
            offline,
        })
    }
}

/// As `huggingface_hub` reads it.
fn is_true(value: &str) -> bool {
    ["1", "ON", "YES", "TRUE"].contains(&value.to_uppercase().as_str())
}

/// The token that is given, else the one that `hf auth login` left.
fn token(given: Option<String>, file: Option<&Path>) -> Result<Option<String>> {
    let (token, origin) = match (given, file) {
        (Some(token), _) => (token, "HF_TOKEN".to_string()),
        (None, Some(file)) => match std::fs::read_to_string(file) {
            Ok(text) => (text.trim().to_string(), file.display().to_string()),
            Err(_) => return Ok(None), // There is none: most models need none.
        },
        (None, None) => return Ok(None),
    };
    if !token.chars().all(|c| c.is_ascii_graphic()) {
        let what = format!("{origin}: a token has only letters, digits and signs, without blanks");
        return Err(Error::Hub(what));
    }
    Ok(Some(token).filter(|token| !token.is_empty()))
}

/// The proxy for addresses like `endpoint`.
fn proxy(endpoint: &str, get: impl Fn(&str) -> Option<String>) -> Result<Option<Proxy>> {
    let any_case = |name: &str| get(name).or_else(|| get(&name.to_lowercase()));
    let own = if endpoint.starts_with("https:") { "HTTPS_PROXY" } else { "HTTP_PROXY" };
    let Some((name, value)) = [own, "ALL_PROXY"].into_iter().find_map(|name| Some((name, any_case(name)?)))
    else {
        return Ok(None);
    };
    let refuse = |error: ureq::Error| {
        Error::Hub(format!("{name} is not the address of a proxy, http://HOST:PORT ({error})"))
    };
    let address = if value.contains("://") { value } else { format!("http://{value}") };
    let parsed = Proxy::new(&address).map_err(refuse)?;
    let mut proxy = Proxy::builder(parsed.protocol()).host(parsed.host()).port(parsed.port());
    if let Some(user) = parsed.username() {
        proxy = proxy.username(user);
    }
    if let Some(password) = parsed.password() {
        proxy = proxy.password(password);
    }
    for host in any_case("NO_PROXY").unwrap_or_default().split(',').map(str::trim) {
        proxy = proxy.no_proxy(host);
        // curl and Python take a name for all below it too.
        if !host.is_empty() && !host.starts_with(['.', '*']) {
            proxy = proxy.no_proxy(&format!(".{host}"));
        }
    }
    proxy.build().map(Some).map_err(refuse)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(variables: &[(&str, &str)]) -> Result<Settings> {
        let get = |name: &str| {
            variables.iter().find(|(there, _)| *there == name).map(|(_, value)| value.to_string())
        };
        Settings::read(get, Some(PathBuf::from("/home/me")))
    }

    #[test]
    fn the_cache_is_where_python_has_it() {
        for (variables, cache) in [
            (&[][..], "/home/me/.cache/huggingface/hub"),
            (&[("XDG_CACHE_HOME", "/x")], "/x/huggingface/hub"),
            (&[("HF_HOME", "/h"), ("XDG_CACHE_HOME", "/x")], "/h/hub"),
            (&[("HF_HUB_CACHE", "/c"), ("HF_HOME", "/h")], "/c"),
            (&[("HF_HUB_CACHE", "")], "/home/me/.cache/huggingface/hub"),
        ] {
            assert_eq!(read(variables).unwrap().cache, Path::new(cache));
        }
        let error = Settings::read(|_| None, None).unwrap_err().to_string();
        assert!(error.contains("HF_HOME"), "{error}");
    }

    #[test]
    fn endpoint_and_offline() {
        let settings = read(&[("HF_ENDPOINT", "http://mirror:80/hub/"), ("HF_HUB_OFFLINE", "on")]).unwrap();
        assert_eq!(
            (settings.endpoint.as_str(), settings.offline),
            ("http://mirror:80/hub", Some("HF_HUB_OFFLINE"))
        );
        assert_eq!(read(&[("HF_HUB_OFFLINE", "0")]).unwrap().offline, None);
        assert!(read(&[("HF_ENDPOINT", "mirror")]).unwrap_err().to_string().contains("HF_ENDPOINT"));
    }

    #[test]
    fn the_token_comes_from_the_variable_or_the_file() {
        let folder = tempfile::tempdir().unwrap();
        let home = folder.path().to_str().unwrap();
        assert_eq!(read(&[("HF_HOME", home)]).unwrap().token, None);
        std::fs::write(folder.path().join("token"), "hf_file\n").unwrap();
        assert_eq!(read(&[("HF_HOME", home)]).unwrap().token.as_deref(), Some("hf_file"));
        assert_eq!(read(&[("HF_HOME", home), ("HF_TOKEN", "hf_a")]).unwrap().token.as_deref(), Some("hf_a"));
        assert!(read(&[("HF_TOKEN", "a\r\nHost: b")]).is_err());
    }

    #[test]
    fn the_proxy_is_that_of_the_scheme() {
        let host = |variables: &[(&str, &str)]| {
            read(variables).unwrap().proxy.map(|proxy| format!("{}:{}", proxy.host(), proxy.port()))
        };
        let both = [("HTTPS_PROXY", "http://s:1"), ("http_proxy", "http://p:2")];
        assert_eq!(host(&both).as_deref(), Some("s:1"));
        assert_eq!(host(&[both[0], both[1], ("HF_ENDPOINT", "http://mirror")]).as_deref(), Some("p:2"));
        assert_eq!(host(&[("ALL_PROXY", "a:3")]).as_deref(), Some("a:3"));
        assert_eq!(host(&[("HTTP_PROXY", "http://p:2")]), None);
        assert!(read(&[("HTTPS_PROXY", "http://")]).is_err());
        let proxy = read(&[both[0], ("NO_PROXY", "other, huggingface.co")]).unwrap().proxy.unwrap();
        let bypassed = |uri: &str| proxy.is_no_proxy(&uri.parse().unwrap());
        assert!(bypassed("https://huggingface.co/a") && bypassed("https://cdn.huggingface.co/a"));
        assert!(!bypassed("https://nothuggingface.co/a"));
    }
}
