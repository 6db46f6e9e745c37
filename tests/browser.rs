//! A page in a real browser, driven as a user would: keys, the mouse, and eyes. Where no Chromium is found the tests that
//! need one say so and pass.

use crate::common::Files;
use base64::prelude::{BASE64_STANDARD, Engine};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::io::{BufRead, BufReader};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tungstenite::stream::MaybeTlsStream;
use tungstenite::{Message, WebSocket};

/// Long enough for a slow machine; nothing waits as long where all is well.
const PATIENCE: Duration = Duration::from_secs(60);

/// A page of a file on this machine, spoken to by the Chrome DevTools Protocol. Crates that know its thousands of types take
/// minutes and gigabytes to build, for the dozen messages of here.
pub struct Page {
    wire: RefCell<Wire>,
    url: String,
}

struct Wire {
    socket: WebSocket<MaybeTlsStream<TcpStream>>,
    session: Option<String>,
    calls: u64,
    seen: Seen,
    program: Child,
    /// Where the program keeps its things.
    _profile: tempfile::TempDir,
}

#[derive(Default)]
struct Seen {
    /// Errors and warnings of the console, exceptions, violations of the page's own policy.
    complaints: Vec<String>,
    /// The address of every request.
    requests: Vec<String>,
}

impl Drop for Wire {
    fn drop(&mut self) {
        // It may be gone already.
        let _ = self.program.kill();
        let _ = self.program.wait();
    }
}

impl Wire {
    fn open(program: &Path) -> Self {
        let profile = tempfile::tempdir().unwrap();
        let mut program = Command::new(program)
            // A container's root cannot have the sandbox.
            .args([
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--no-first-run",
            ])
            .args(["--hide-scrollbars", "--force-color-profile=srgb", "--remote-debugging-port=0"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = BufReader::new(program.stderr.take().unwrap()).lines().map_while(Result::ok);
        let address = said.find_map(|line| Some(line.strip_prefix("DevTools listening on ")?.to_string()));
        // What else it says is of no interest, but must be read.
        std::thread::spawn(move || said.for_each(drop));
        let (socket, _) = tungstenite::connect(address.expect("Chromium gives its address")).unwrap();
        let mut wire =
            Wire { socket, session: None, calls: 0, seen: Seen::default(), program, _profile: profile };
        let target = wire.call("Target.createTarget", json!({"url": "about:blank"}));
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = wire.call("Target.attachToTarget", attach);
        wire.session = attached["sessionId"].as_str().map(String::from);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            wire.call(&format!("{domain}.enable"), json!({}));
        }
        wire
    }

    /// The result of a method; events that come meanwhile are noted.
    fn call(&mut self, method: &str, params: Value) -> Value {
        self.calls += 1;
        let mut request = json!({"id": self.calls, "method": method, "params": params});
        if let Some(session) = &self.session {
            request["sessionId"] = json!(session);
        }
        self.socket.send(Message::text(request.to_string())).unwrap();
        loop {
            let Message::Text(text) = self.socket.read().unwrap() else { continue };
            let mut message: Value = serde_json::from_str(&text).unwrap();
            if message["id"] == self.calls {
                assert!(message["error"].is_null(), "{method}: {}", message["error"]);
                return message["result"].take();
            }
            self.seen.note(&message);
        }
    }
}

/// `$CHROME`, or the first of the usual names in the path.
fn chromium() -> Option<PathBuf> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = || names.iter().flat_map(|name| std::env::split_paths(&path).map(move |dir| dir.join(name)));
    let given = std::env::var_os("CHROME").map(PathBuf::from);
    given.into_iter().chain(usual()).find(|program| program.is_file())
}

impl Page {
    /// Opens `file` 1280 pixels wide and light; none where there is no browser.
    pub fn open(file: impl AsRef<Path>) -> Option<Page> {
        let Some(program) = chromium() else {
            eprintln!("no Chromium here (set $CHROME to one): the page is not tried in a browser");
            return None;
        };
        let url = format!("file://{}", file.as_ref().to_str().unwrap());
        let page = Page { wire: RefCell::new(Wire::open(&program)), url };
        page.show_as(1280, false);
        page.call("Page.navigate", json!({"url": page.url}));
        page.wait_for("location.protocol === 'file:' && document.readyState === 'complete'");
        Some(page)
    }

    fn call(&self, method: &str, params: Value) -> Value {
        self.wire.borrow_mut().call(method, params)
    }

    /// The value of an expression, or what its promise is kept with; it must be JSON.
    pub fn eval(&self, expression: &str) -> Value {
        let params = json!({"expression": format!("(async () => ({expression}))()"), "awaitPromise": true, "returnByValue": true});
        let mut found = self.call("Runtime.evaluate", params);
        assert!(found["exceptionDetails"].is_null(), "{expression}: {}", found["exceptionDetails"]);
        found["result"]["value"].take()
    }

    /// Waits until an expression holds.
    pub fn wait_for(&self, condition: &str) {
        let start = Instant::now();
        while self.eval(&format!("!!({condition})")) != true {
            assert!(start.elapsed() < PATIENCE, "in vain for {condition}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Presses a key by its name (`Tab`, `ArrowDown`, `Enter`, `Escape`), with `Shift+` before it if so.
    pub fn press(&self, key: &str) {
        let (key, modifiers) = key.strip_prefix("Shift+").map_or((key, 0), |key| (key, 8));
        let code = match key {
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            " " => 32,
            "PageUp" => 33,
            "PageDown" => 34,
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            _ => panic!("no key {key:?}"),
        };
        let named = if key == " " { "Space" } else { key };
        let mut event =
            json!({"key": key, "code": named, "windowsVirtualKeyCode": code, "modifiers": modifiers});
        event["type"] = json!("rawKeyDown");
        if let "Enter" | " " = key {
            event["type"] = json!("keyDown");
            event["text"] = json!(if key == " " { " " } else { "\r" });
        }
        self.call("Input.dispatchKeyEvent", event.clone());
        event["type"] = json!("keyUp");
        self.call("Input.dispatchKeyEvent", event);
    }

    /// Scrolls to the first element of a selector and clicks its middle.
    pub fn click(&self, selector: &str) {
        self.hover(selector, 0.5, 0.5);
        for kind in ["mousePressed", "mouseReleased"] {
            self.mouse(kind, self.point(selector, 0.5, 0.5), 1);
        }
    }

    /// Moves the mouse over it, to the place that is these shares of its width and height away from its corner.
    pub fn hover(&self, selector: &str, across: f64, down: f64) {
        self.mouse("mouseMoved", self.point(selector, across, down), 0);
    }

    fn mouse(&self, kind: &str, [x, y]: [f64; 2], clicks: u32) {
        let button = if clicks > 0 { "left" } else { "none" };
        let event = json!({"type": kind, "x": x, "y": y, "button": button, "clickCount": clicks});
        self.call("Input.dispatchMouseEvent", event);
    }

    fn point(&self, selector: &str, across: f64, down: f64) -> [f64; 2] {
        let found = self.eval(&format!(
            "(() => {{ const it = document.querySelector({selector:?});\
             if (!it) return null; it.scrollIntoView({{block: 'nearest', inline: 'nearest'}});\
             const {{x, y, width, height}} = it.getBoundingClientRect(); return [x, y, width, height]; }})()"
        ));
        let [x, y, width, height]: [f64; 4] =
            serde_json::from_value(found).unwrap_or_else(|_| panic!("no {selector}"));
        [x + across * width, y + down * height]
    }

    /// As a screen of this many pixels' width shows it, to one who prefers light or dark.
    pub fn show_as(&self, width: u32, dark: bool) {
        let size = json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", size);
        let scheme = json!({"name": "prefers-color-scheme", "value": if dark { "dark" } else { "light" }});
        self.call("Emulation.setEmulatedMedia", json!({"features": [scheme]}));
    }

    /// A PNG of the whole page. Where `$TX_SCREENSHOTS` is a folder it is left there too, as `name.png`, to be looked at.
    pub fn screenshot(&self, name: &str) -> Vec<u8> {
        let clip = self.eval(
            "{x: 0, y: 0, scale: 1, width: document.documentElement.scrollWidth, height: document.documentElement.scrollHeight}",
        );
        let shot = self.call("Page.captureScreenshot", json!({"clip": clip, "captureBeyondViewport": true}));
        let png = BASE64_STANDARD.decode(shot["data"].as_str().unwrap()).unwrap();
        if let Some(folder) = std::env::var_os("TX_SCREENSHOTS") {
            std::fs::write(Path::new(&folder).join(format!("{name}.png")), &png).unwrap();
        }
        png
    }

    /// Nothing was complained of, and nothing but the file was asked for.
    pub fn assert_quiet(&self) {
        // What is on its way comes before this answer.
        self.eval("null");
        let seen = &self.wire.borrow().seen;
        assert_eq!(seen.complaints, [""; 0]);
        assert_eq!(seen.requests, [self.url.as_str()]);
    }
}

impl Seen {
    fn note(&mut self, event: &Value) {
        let params = &event["params"];
        match event["method"].as_str().unwrap_or_default() {
            "Runtime.consoleAPICalled"
                if ["error", "warning", "assert"].iter().any(|kind| params["type"] == *kind) =>
            {
                self.complaints.push(params["args"].to_string());
            }
            "Runtime.exceptionThrown" => self.complaints.push(params["exceptionDetails"].to_string()),
            "Log.entryAdded" => self.complaints.push(params["entry"]["text"].to_string()),
            "Network.requestWillBeSent" => {
                self.requests.push(params["request"]["url"].as_str().unwrap().to_string());
            }
            _ => {}
        }
    }
}

/// The harness sees what there is to see: else a quiet page would prove nothing.
#[test]
fn the_browser_sees_errors_requests_keys_and_light() {
    let files = Files::new();
    let page = "<!DOCTYPE html><style>:root { color-scheme: light dark }</style><button>b</button><p></p>\
                <script>const button = document.querySelector('button'), p = document.querySelector('p');\
                button.onclick = () => p.textContent += 'click ';\
                button.onmouseenter = () => p.textContent += 'over ';\
                document.onkeydown = e => p.textContent += (e.shiftKey ? 'shift ' : '') + e.key + ' ';</script>";
    let Some(quiet) = Page::open(files.write("quiet.html", page)) else { return };
    quiet.assert_quiet();
    for key in ["Tab", "Enter", "ArrowDown", "Escape", "Shift+Tab"] {
        quiet.press(key);
    }
    quiet.click("button");
    quiet.wait_for("p.textContent.includes('over click')");
    let heard = "Tab Enter click ArrowDown Escape shift Tab over click ";
    assert_eq!(quiet.eval("p.textContent"), heard);
    let light = quiet.screenshot("harness-light");
    quiet.show_as(420, true);
    assert_eq!(
        quiet.eval("[innerWidth, matchMedia('(prefers-color-scheme: dark)').matches]"),
        json!([420, true])
    );
    assert_ne!(light, quiet.screenshot("harness-dark"));
    quiet.assert_quiet();

    let loud = "<!DOCTYPE html><link rel=\"icon\" href=\"data:,\"><img src=\"elsewhere.png\"><script>console.error('alas'); null.x</script>";
    let loud = Page::open(files.write("loud.html", loud)).unwrap();
    let start = Instant::now();
    while loud.wire.borrow().seen.complaints.len() < 3 && start.elapsed() < PATIENCE {
        loud.eval("new Promise(go => setTimeout(go, 20))");
    }
    let seen = &loud.wire.borrow().seen;
    for part in ["alas", "TypeError", "ERR_FILE_NOT_FOUND"] {
        assert!(seen.complaints.iter().any(|complaint| complaint.contains(part)), "{:?}", seen.complaints);
    }
    assert!(seen.requests.iter().any(|url| url.ends_with("elsewhere.png")), "{:?}", seen.requests);
}
