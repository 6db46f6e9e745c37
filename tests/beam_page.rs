use crate::browser::Page;
use crate::common::*;
use serde_json::{Value, json};

/// The page of a search in the browser, and what `--format json` says of it.
fn open(sentence: &str, flags: &[&str], bundled: bool) -> Option<(Page, Value)> {
    let files = Files::new();
    let path = files.path("page.html");
    let mut command = tx(&[&["beam", sentence, "--format", "json", "--html", &path][..], flags].concat());
    if bundled {
        command.env_remove("TX_MODEL");
    }
    let json = serde_json::from_str(&stdout(&command.output().unwrap())).unwrap();
    Page::open(&path).map(|page| (page, json))
}

/// The texts of all elements of a selector.
fn texts(page: &Page, selector: &str) -> Value {
    page.eval(&format!("[...document.querySelectorAll({selector:?})].map(it => it.textContent)"))
}

fn status(page: &Page) -> String {
    page.eval("document.querySelector('#status').textContent").as_str().unwrap().to_string()
}

fn number(value: &Value) -> String {
    format!("{:.4}", value.as_f64().unwrap())
}

const SENTENCE: &str = "Where is the station?";

/// Every number on the page is that of the record: the list, the cards with what fell off, the pieces of what was asked for, the
/// other searches.
#[test]
fn the_page_has_the_numbers_of_the_record() {
    let flags = ["--why", "Wo ist der Bahnhof?", "--compare", "1,4:none"];
    let Some((page, json)) = open(SENTENCE, &flags, true) else { return };
    let rows = |name: &str| json[name].as_array().unwrap().clone();
    let numbers = |all: &[&Value]| -> Vec<String> { all.iter().map(|value| number(value)).collect() };
    let list: Vec<String> =
        rows("hypotheses").iter().flat_map(|one| numbers(&[&one["score"], &one["log_prob"]])).collect();
    assert_eq!(texts(&page, "#list td.n:nth-child(3), #list td.n:nth-child(4)"), json!(list));
    let said: Vec<Value> = rows("hypotheses").iter().map(|one| one["text"].clone()).collect();
    assert_eq!(texts(&page, "#list button"), json!(said));

    page.click("#fallen");
    let mut cards = Vec::new();
    for one in rows("steps").iter().flat_map(|step| step["candidates"].as_array().unwrap()) {
        cards.extend(numbers(&[&one["log_prob"], &one["score"]]));
    }
    // What was asked for and was not even weighed has a card of its own, with its number in place of a score.
    let own = texts(&page, ".card small span");
    let own: Vec<&Value> = own.as_array().unwrap().iter().collect();
    let beyond = texts(&page, ".card.asked small span:last-child");
    let beyond =
        beyond.as_array().unwrap().iter().filter(|text| text.as_str().unwrap().starts_with("number"));
    assert_eq!(own.len() - 2 * beyond.count(), cards.len());
    assert!(cards.iter().all(|card| own.contains(&&json!(card))));

    let why = &json["why"];
    let mut cells = Vec::new();
    for row in why["positions"].as_array().unwrap() {
        for side in [&row["target"], &row["winner"]] {
            match side.is_null() {
                true => cells.extend([String::new(), String::new()]),
                false => cells.extend(numbers(&[&side["log_prob"], &side["sum"]])),
            }
        }
    }
    assert_eq!(texts(&page, "#positions td.n"), json!(cells));
    let says = texts(&page, "#says p");
    assert_eq!(says[0], why["says"][0]);
    let compared: Vec<String> =
        rows("compared").iter().flat_map(|one| numbers(&[&one["score"], &one["log_prob"]])).collect();
    assert_eq!(texts(&page, "#compared td.n:nth-child(4), #compared td.n:nth-child(5)"), json!(compared));
    page.assert_quiet();
}

/// Keys alone lead through the search, and what they lead to is said.
#[test]
fn keys_lead_through_the_search() {
    let Some((page, json)) = open(SENTENCE, &["--beam", "3"], true) else { return };
    page.eval("document.querySelector('.card[tabindex=\"0\"]').focus()");
    let steps = json["steps"].as_array().unwrap();
    let piece = |step: usize, place: usize| {
        let kept = steps[step - 1]["candidates"].as_array().unwrap();
        kept.iter().filter(|one| one["fate"] != "pruned").nth(place).unwrap().clone()
    };
    let expect = |one: &Value, step: usize| {
        let (name, log_prob) = (one["piece"].as_str().unwrap(), number(&one["log_prob"]));
        let status = status(&page);
        assert_parts(&status, &[&format!("step {step}: {name}"), &format!("log_prob {log_prob}")]);
        let label = page.eval("document.activeElement.getAttribute('aria-label')");
        assert_parts(label.as_str().unwrap(), &[&format!("step {step}, {name}"), &log_prob]);
    };
    page.press("Home");
    expect(&piece(1, 0), 1);
    page.press("ArrowDown");
    expect(&piece(1, 1), 1);
    page.press("ArrowUp");
    expect(&piece(1, 0), 1);
    page.press("ArrowRight");
    let child = steps[1]["candidates"].as_array().unwrap();
    let child = child.iter().find(|one| one["parent"] == piece(1, 0)["id"] && one["fate"] != "pruned");
    expect(child.unwrap(), 2);
    page.press("Enter");
    expect(&piece(1, 0), 1);
    page.press("Enter");
    assert_parts(&status(&page), &["start of the search"]);
    page.press("ArrowRight");
    page.press("End");
    expect(&piece(steps.len(), 0), steps.len());
    page.press(" ");
    assert_eq!(page.eval("document.querySelectorAll('.card.on.current').length"), 1);
    assert_eq!(page.eval("document.querySelectorAll('.card[tabindex=\"0\"]').length"), 1);
    page.press("ArrowLeft");
    assert_parts(&status(&page), &[&format!("step {}:", steps.len() - 1)]);
    let live = page.eval("document.querySelector('#status').getAttribute('aria-live')");
    assert_eq!(live, "polite");
    page.assert_quiet();
}

/// Every control does what it says; a hypothesis of the list shows its path.
#[test]
fn every_control_works() {
    let Some((page, json)) = open(SENTENCE, &[], true) else { return };
    let fell = "document.querySelectorAll('.card.pruned').length";
    assert_eq!(page.eval(fell), 0);
    page.click("#fallen");
    let all =
        json["steps"].as_array().unwrap().iter().flat_map(|step| step["candidates"].as_array().unwrap());
    assert_eq!(page.eval(fell), all.filter(|one| one["fate"] == "pruned").count());
    page.click("#fallen");
    assert_eq!(page.eval(fell), 0);

    let path = "[...document.querySelectorAll('.card.on b')].map(it => it.textContent)";
    let own = |place: usize| {
        let tokens = json["hypotheses"][place]["tokens"].as_array().unwrap().clone();
        Value::Array([json!("start")].into_iter().chain(tokens).collect())
    };
    assert_eq!(page.eval(path), own(0));
    page.hover("#list tbody tr:nth-child(2)", 0.9, 0.5);
    page.wait_for("document.querySelector('#list tr:nth-child(2):hover')");
    assert_eq!(page.eval(path), own(1));
    page.hover("#facts", 0.5, 0.5);
    page.wait_for("!document.querySelector('#list tr:hover')");
    assert_eq!(page.eval(path), own(0));
    page.click("#list tbody tr:nth-child(2) button");
    assert_eq!(page.eval("document.querySelector('#list tr:nth-child(2) button').ariaPressed"), "true");
    page.eval("document.activeElement.blur()");
    page.hover("#facts", 0.5, 0.5);
    assert_eq!(page.eval(path), own(1));

    page.click(".card.finished");
    assert!(status(&page).contains("finished"), "{}", status(&page));
    let ground = "getComputedStyle(document.body).backgroundColor";
    let light = page.eval(ground);
    page.click("#theme");
    assert_ne!(page.eval(ground), light);
    page.click("#theme");
    assert_eq!(page.eval(ground), light);
    page.screenshot("beam-light");
    page.show_as(420, true);
    page.click("#theme");
    assert_ne!(page.eval(ground), light);
    assert_eq!(page.eval("document.documentElement.scrollWidth"), 420);
    page.screenshot("beam-narrow-dark");
    page.assert_quiet();
}

/// Each control has a name, each card is inside the tree and on none of the others.
#[test]
fn nothing_is_without_a_name_or_on_top_of_another() {
    let Some((page, _)) = open(SENTENCE, &["--why", "Guten Tag!"], true) else { return };
    page.click("#fallen");
    let nameless = "[...document.querySelectorAll('button, input, section, table')].filter(it => !it.closest('[hidden]') && !(it.ariaLabel || it.textContent.trim() || it.labels?.length || it.getAttribute('aria-labelledby'))).length";
    assert_eq!(page.eval(nameless), 0);
    let overlaps = "(() => { const all = [...document.querySelectorAll('.card')].map(it => it.getBoundingClientRect());\
         return all.filter((a, i) => all.some((b, j) => i < j && a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)).length; })()";
    assert_eq!(page.eval(overlaps), 0);
    page.screenshot("beam-why");
    page.assert_quiet();
}

/// Steps after the twentieth are folded, and open by a click, by keys that lead there, or all together.
#[test]
fn long_searches_fold() {
    let sentence = "we see the sea ".repeat(3);
    let flags = ["--min-length", "45", "--max-length", "45", "--beam", "4"];
    let Some((page, json)) = open(&sentence, &flags, false) else { return };
    assert_eq!(json["steps"].as_array().unwrap().len(), 45);
    let folds =
        "[...document.querySelectorAll('.fold')].map(it => it.ariaLabel).filter(it => /21|41/.test(it))";
    assert_eq!(page.eval(folds), json!(["Open steps 21–40", "Open steps 41–45"]));
    page.click(".fold[data-open='21']");
    assert_eq!(page.eval(folds), json!(["Open steps 41–45"]));
    page.click("button[data-close='21']");
    assert_eq!(page.eval(folds), json!(["Open steps 21–40", "Open steps 41–45"]));
    page.eval("document.querySelector('.card[tabindex=\"0\"]').focus()");
    page.press("End");
    assert_parts(&status(&page), &["step 45:"]);
    assert_eq!(page.eval(folds), json!(["Open steps 21–40"]));
    page.click("#unfold");
    assert_eq!(page.eval(folds), json!([]));
    page.click("#unfold");
    assert_eq!(page.eval(folds), json!(["Open steps 21–40", "Open steps 41–45"]));
    page.assert_quiet();
}

/// Markup in a text stays text, and right-to-left text is that.
#[test]
fn text_stays_text() {
    let sentence = "<script>document.title = 'hacked'</script> مرحبا 今日は 😀";
    let Some((page, _)) = open(sentence, &["--max-length", "6", "--why", "<b>مرحبا"], false) else {
        return;
    };
    assert_eq!(page.eval("document.title"), format!("Beam search: {sentence}"));
    assert_eq!(page.eval("document.querySelector('h1').textContent"), sentence);
    assert_eq!(page.eval("document.querySelectorAll('main b b, main script').length"), 0);
    assert_eq!(page.eval("document.querySelector('.card b').dir"), "auto");
    page.assert_quiet();
}
