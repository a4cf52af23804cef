//! The dashboard with views written by hand: every kind of object, very many, none; in any light, width and by keyboard.
//!
//! `CAROM_SCREENSHOTS=1` has the pictures in `docs` taken anew.

use carom_live::chromium::Chromium;
use carom_live::showing::Showing;
use carom_live::{ms, until, views};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::{env, fs};

/// A page that shows this.
async fn shown(view: Value) -> (Showing, Chromium) {
    let showing = Showing::start(view).await;
    let mut page = Chromium::start().await;
    page.viewport(1280, 900).await;
    page.open(&showing.url()).await;
    page.until("document.body.dataset.link === 'live' && document.querySelector('#totals dd') !== null").await;
    (showing, page)
}

/// It asked for nothing but what it may, and complained of nothing.
fn assert_well_behaved(showing: &Showing, page: &Chromium) {
    let noted = page.noted();
    let elsewhere: Vec<&String> = noted.requested.iter().filter(|url| !url.starts_with(&showing.url())).collect();
    assert!(elsewhere.iter().all(|url| *url == "about:blank"), "{elsewhere:?}");
    assert!(noted.requested.iter().any(|url| url.ends_with("/api/events")), "{noted:#?}");
    assert_eq!((noted.complaints.len(), noted.refused.len()), (0, 0), "{noted:#?}");
}

/// Nothing sticks out at the side, and nothing is cut off.
async fn assert_fits(page: &mut Chromium, width: u32) {
    let scroll = page.eval("document.scrollingElement.scrollWidth").await;
    assert!(scroll.as_u64().is_some_and(|scroll| scroll <= u64::from(width)), "{scroll} of {width}");
    let outside = "Array.from(document.querySelectorAll('main *, header *, footer *')).filter((node) => {
        const box = node.getBoundingClientRect();
        return node.checkVisibility() && !node.closest('.unseen, svg, .skip') && box.width > 0 && (box.right > innerWidth + 0.5 || box.left < -0.5);
    }).map((node) => `${node.tagName}.${node.className}: ${node.textContent.slice(0, 60)}`)";
    assert_eq!(page.eval(outside).await, json!([]), "at {width}");
}

#[tokio::test]
async fn everything_is_there_in_words() {
    let (showing, mut page) = shown(views::everything()).await;
    for text in [
        "carom up",
        "0.1.0",
        "edge-04.example.com",
        "pid 4711",
        "degraded",
        "live",
        // A dead backend and an ejected one, each with the reason and the time.
        "cannot connect to 10.0.3.13:8080: connection refused",
        "next attempt in ",
        "ejected for ",
        "4 busy, 2 idle, 1 checking",
        "2 callers in line",
        "claim wait",
        "peak ",
        // A set.
        "17 leases",
        "9 leases (3 consumer, 6 producer)",
        "idle 21 s of 60 s, marked",
        "released next",
        // A feed and its gateway.
        "2,140 of 3,000 topics",
        "140 unwritten",
        "10.0.9.17:51017",
        "38,114",
        // Windows.
        "closing",
        "3 of 5 started, 3 under way",
        "Node4",
        // A resolver.
        "_http._tcp.api.example.com",
        "asked again in ",
        "10.0.0.53 did not answer within 2 s",
    ] {
        page.shows(text).await;
    }
    let order = page.eval("Array.from(document.querySelectorAll('#services h3'), (title) => title.textContent)").await;
    assert_eq!(order, json!(["api", "orders-db", "search"]));
    let first = page.eval("document.querySelector('#services .backend').dataset.trouble").await;
    assert_eq!(first, "2", "trouble comes first");
    let cells = "Array.from(document.querySelectorAll('#services .strip'), (strip) => [strip.getAttribute('aria-label'), strip.textContent])";
    let cells = page.eval(cells).await;
    assert!(
        cells.as_array().is_some_and(|all| all.contains(&json!(["7 slots: 4 busy, 2 idle, 1 checking", "BBIBIBK"]))),
        "{cells}"
    );
    assert_well_behaved(&showing, &page);
}

#[tokio::test]
async fn countdowns_run_between_events_and_stand_still_for_who_wants_that() {
    let (showing, mut page) = shown(views::everything()).await;
    let watch = "new Promise((resolve) => {
        const seen = new Set();
        const node = document.querySelector('.why .next');
        const watching = new MutationObserver(() => {
            seen.add(node.textContent);
            if (seen.size >= 6) { watching.disconnect(); resolve(true); }
        });
        watching.observe(node, { characterData: true, childList: true, subtree: true });
    })";
    assert_eq!(page.eval(watch).await, json!(true));
    page.press("p").await;
    page.until("document.querySelector('#link').textContent === 'held'").await;
    let held = page.eval("document.querySelector('.why .next').textContent").await;
    showing.show(views::empty());
    page.until("document.querySelector('#status').textContent === 'ok'").await;
    assert_eq!(page.eval("document.querySelector('.why .next').textContent").await, held, "the picture is held");
    page.press("p").await;
    page.shows("Nothing is held.").await;
    assert_well_behaved(&showing, &page);
}

#[tokio::test]
async fn it_fits_whatever_the_width_and_the_light() {
    let (showing, mut page) = shown(views::everything()).await;
    for view in [views::everything(), views::many(), views::empty(), views::hostile()] {
        showing.show(view);
        for light in ["light", "dark"] {
            page.media(&[("prefers-color-scheme", light)]).await;
            for width in [360, 768, 1280, 1920] {
                page.viewport(width, 800).await;
                page.open(&showing.url()).await;
                page.until("document.body.dataset.link === 'live' && document.querySelector('#totals dd') !== null")
                    .await;
                assert_fits(&mut page, width).await;
                page.press("e").await;
                assert_fits(&mut page, width).await;
            }
        }
    }
    assert_eq!(page.eval("window.harmed").await, Value::Null);
    assert_well_behaved(&showing, &page);
}

#[tokio::test]
async fn very_many_are_shown_and_nothing_does_not_look_broken() {
    let (showing, mut page) = shown(views::many()).await;
    assert_eq!(page.eval("document.querySelectorAll('[id^=\"service-wide\"] .cell').length").await, 1000);
    let rows = "document.querySelectorAll('[id^=\"service-tall\"] .backend:not([hidden])').length";
    assert_eq!(page.eval(rows).await, 12);
    page.eval("document.querySelector('[id^=\"service-tall\"] .more').click()").await;
    assert_eq!(page.eval(rows).await, 100);
    // What is put away again does not go on counting.
    page.eval("sort.value = 'name'; sort.dispatchEvent(new Event('change'))").await;
    page.until("document.querySelector('[id^=\"service-tall\"] .name').textContent === '10.2.0.1:80'").await;
    assert_eq!(page.eval("document.querySelectorAll('[id^=\"service-tall\"] .next:not([hidden])').length").await, 3);
    page.eval("document.querySelector('[id^=\"service-tall\"] .more').click()").await;
    assert_eq!(page.eval(rows).await, 12);
    let counting =
        "Array.from(document.querySelectorAll('.backend[hidden] .next'), (next) => next.textContent).join('')";
    assert_eq!(page.eval(counting).await, "");
    showing.show(views::empty());
    page.shows("Nothing is held.").await;
    assert_eq!(page.eval("document.querySelectorAll('.panel').length").await, 0);
    assert_well_behaved(&showing, &page);
}

#[tokio::test]
async fn an_update_of_a_thousand_slots_takes_little_of_a_second() {
    let (showing, mut page) = shown(views::many()).await;
    // The page is held meanwhile: it is drawn from here.
    page.press("p").await;
    let measure = format!(
        "import('/assets/app/board.js').then(({{ showBoard }}) => {{
            const views = [{}, {}];
            const times = Array.from({{ length: 20 }}, (_, at) => {{
                const begun = performance.now();
                showBoard(views[at % 2], begun, {{ sought: [], only: false, sort: 'trouble' }});
                document.body.getBoundingClientRect();
                return performance.now() - begun;
            }});
            return times.sort((a, b) => a - b)[times.length / 2];
        }})",
        views::many_later(),
        views::many()
    );
    let typical = page.eval(&measure).await;
    println!("an update of 1,000 slots takes {typical} ms");
    // Machines that run this can be slow and busy; there is a second until the next.
    assert!(typical.as_f64().is_some_and(|ms| ms < 500.0), "{typical} ms");
    assert_well_behaved(&showing, &page);
}

#[tokio::test]
async fn where_nobody_was_served_the_line_of_waits_has_a_gap() {
    let mut view = views::everything();
    let waits = &mut view["history"]["2"]["wait_ms"];
    for second in 100..120 {
        waits[second] = Value::Null;
    }
    waits[50] = Value::Null;
    view["history"]["2"]["served"][119] = Value::Null;
    let (showing, mut page) = shown(view).await;
    let line = page.eval("document.querySelector('[id^=\"service-api\"] .spark .line').getAttribute('d')").await;
    let line = line.as_str().expect("a path");
    assert_eq!(line.matches('M').count(), 2, "{line}");
    assert!(
        line.contains("M0.5 ") && line.contains("L50 ") && line.contains("M51.5 ") && line.contains("L100 "),
        "{line}"
    );
    assert!(!line.contains("L51 ") && !line.contains("L101 ") && !line.contains("NaN"), "{line}");
    assert_eq!(
        page.eval("document.querySelector('[id^=\"service-api\"] .spark-now').textContent").await,
        "nobody served"
    );
    page.until("/^peak \\d/.test(document.querySelector('[id^=\"service-api\"] .peak').textContent)").await;
    assert_well_behaved(&showing, &page);
}

#[tokio::test]
async fn an_error_is_told_once_by_a_service_and_its_pool() {
    let mut view = views::everything();
    let cause = "last resolver error: cannot resolve `nosuch.test`: A nosuch.test: NXDOMAIN";
    let objects = view["monitor"]["objects"].as_array_mut().expect("objects");
    let pool = objects.iter_mut().find(|object| object["type"] == "pool").expect("a pool");
    (pool["cause"], pool["backends"]) = (json!(cause), json!([]));
    let id = pool["id"].clone();
    let resolver = objects.iter_mut().find(|object| object["type"] == "resolver" && !object["dns"].is_null());
    let resolver = resolver.expect("a resolver that asks");
    resolver["error"] = json!("cannot resolve `nosuch.test`: A nosuch.test: NXDOMAIN");
    resolver["dns"]["questions"][0]["trouble"] = json!("A nosuch.test: NXDOMAIN");
    let services = view["services"].as_array_mut().expect("services");
    let owns = |service: &&mut Value| service["objects"].as_array().is_some_and(|own| own.contains(&id));
    services.iter_mut().find(owns).expect("a service")["trouble"] = json!(cause);
    let (_showing, mut page) = shown(view).await;
    page.shows(cause).await;
    let told = "document.querySelector('#board').innerText";
    assert_eq!(page.eval(&format!("{told}.split('cannot resolve').length - 1")).await, json!(1));
    let of_question = page.eval(&format!("{told}.split('A nosuch.test: NXDOMAIN').length - 1")).await;
    assert_eq!(of_question, json!(2), "once in that, and once where it was asked");
}

#[tokio::test]
async fn of_two_that_are_called_the_same_one_has_the_id() {
    let mut view = views::everything();
    let mut old = view["services"][0].clone();
    old["objects"] = json!([2, 5]);
    view["leaving"] = json!([old.clone(), old]);
    let (showing, mut page) = shown(view).await;
    assert_eq!(page.eval("document.querySelectorAll('#leaving .panel').length").await, 2);
    let ids = page.eval("Array.from(document.querySelectorAll('[id]'), (node) => node.id)").await;
    let ids: Vec<&str> = ids.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
    assert_well_behaved(&showing, &page);
}

#[tokio::test]
async fn names_that_try_to_be_markup_stay_text() {
    let (showing, mut page) = shown(views::hostile()).await;
    page.shows("<script>window.harmed = 1</script>").await;
    assert_eq!(page.eval("document.querySelectorAll('main script, main img').length").await, 0);
    assert_eq!(page.eval("window.harmed").await, Value::Null);
    assert_well_behaved(&showing, &page);
}

#[tokio::test]
async fn the_keyboard_reaches_everything() {
    let (showing, mut page) = shown(views::everything()).await;
    let all = "(() => {
        const nodes = Array.from(document.querySelectorAll('a[href], button, input, select, summary')).filter((node) => node.checkVisibility() && !node.closest('dialog'));
        nodes.forEach((node, at) => (node.dataset.stop = at));
        window.reached = new Set();
        document.addEventListener('focusin', (event) => window.reached.add(event.target.dataset.stop));
        return nodes.length;
    })()";
    let stops = page.eval(all).await.as_u64().expect("a number");
    assert!(stops > 15, "{stops}");
    for _ in 0..stops {
        page.press("Tab").await;
        let ring = "getComputedStyle(document.activeElement).outlineStyle !== 'none' || document.activeElement === document.body";
        assert_eq!(page.eval(ring).await, json!(true), "the focus is seen");
    }
    let reached = page.eval("Array.from(window.reached)").await;
    let reached: BTreeSet<&str> = reached.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert_eq!(reached.len() as u64, stops, "{reached:?}");
    page.press("Escape").await;
    page.eval("document.activeElement.blur()").await;
    page.press("?").await;
    page.until("document.querySelector('#keys').open").await;
    page.press("Escape").await;
    page.until("!document.querySelector('#keys').open").await;
    page.press("t").await;
    page.until("document.activeElement.id.startsWith('service-api')").await;
    page.eval("document.activeElement.blur()").await;
    // Faster than the page is drawn.
    let at_once = "(() => {
        const keys = document.querySelector('#keys');
        keys.showModal();
        const inside = document.activeElement;
        keys.close();
        inside.dispatchEvent(new KeyboardEvent('keydown', { key: 't', bubbles: true }));
        return inside.closest('dialog') !== null && document.activeElement.id.startsWith('service-api');
    })()";
    assert_eq!(page.eval(at_once).await, json!(true));
    page.press("j").await;
    page.until("document.activeElement.id.startsWith('service-orders-db')").await;
    assert_well_behaved(&showing, &page);
}

#[tokio::test]
async fn the_filter_finds_names_addresses_and_states() {
    let (showing, mut page) = shown(views::everything()).await;
    let titles = "Array.from(document.querySelectorAll('.panel h3'), (title) => title.textContent).join()";
    for (typed, found) in [
        ("orders", "orders-db"),
        ("10.0.5.2", "search"),
        ("dead", "api"),
        ("api connecting", "api"),
        ("redis", "sessions"),
        ("marked", "pulsar brokers"),
        ("window", "sovrin builder"),
        ("no such thing", ""),
    ] {
        page.press("/").await;
        page.until("document.activeElement.id === 'filter'").await;
        page.type_text(typed).await;
        page.until(&format!("{titles} === {}", json!(found))).await;
        page.press("Escape").await;
        page.until("document.querySelector('#filter').value === ''").await;
        page.eval("document.activeElement.blur()").await;
    }
    page.eval("document.querySelector('#only').click()").await;
    page.until(&format!("{titles} === 'api,api.example.com'")).await;
    assert_well_behaved(&showing, &page);
}

#[tokio::test]
async fn updates_leave_focus_selection_and_open_details_alone() {
    let (showing, mut page) = shown(views::everything()).await;
    // The focus is in what will be moved to the end, the selection in what will be moved to the front.
    let prepare = "(() => {
        const details = document.querySelector('[id^=\"service-api\"] details');
        details.open = true;
        details.querySelector('summary').focus();
        window.kept = document.activeElement;
        getSelection().selectAllChildren(document.querySelector('[id^=\"service-api\"] .reason'));
        return getSelection().toString();
    })()";
    let selected = page.eval(prepare).await;
    assert!(selected.as_str().is_some_and(|text| text.contains("refused")), "{selected}");
    let mut view = views::everything();
    view["services"][0]["status"] = json!("ok");
    view["services"][2]["status"] = json!("degraded");
    view["services"][1]["served"] = json!(9_999);
    let api =
        view["monitor"]["objects"].as_array_mut().expect("a list").iter_mut().find(|object| object["name"] == "api");
    api.expect("it is there")["dead"] = json!(0);
    showing.show(view);
    page.shows("9,999").await;
    page.until("document.querySelector('#services h3').textContent === 'search'").await;
    assert_eq!(
        page.eval("document.activeElement === window.kept && window.kept.closest('details').open").await,
        json!(true)
    );
    assert_eq!(page.eval("getSelection().toString()").await, selected);
    // What is filtered out and back is as it was.
    page.press("/").await;
    page.type_text("orders-db").await;
    page.until("document.querySelectorAll('.panel').length === 1").await;
    page.press("Escape").await;
    page.until("document.querySelector('[id^=\"service-api\"] details')?.open ?? false").await;
    assert_well_behaved(&showing, &page);
}

#[tokio::test]
async fn only_what_gets_worse_or_better_is_announced() {
    let (showing, mut page) = shown(views::everything()).await;
    page.eval("window.said = []; new MutationObserver(() => window.said.push(announced.textContent)).observe(announced, { childList: true, characterData: true, subtree: true })").await;
    let mut view = views::everything();
    view["services"][0]["served"] = json!(1);
    showing.show(view.clone());
    page.until("document.querySelector('[id^=\"service-api\"] .figures').textContent.includes('served1failed')").await;
    assert_eq!(page.eval("window.said").await, json!([]));
    view["services"][1]["status"] = json!("degraded");
    showing.show(view);
    page.until("window.said.join() === 'degraded: api, orders-db'").await;
    assert_eq!(page.eval("document.querySelectorAll('[aria-live], [role=status], [role=alert]').length").await, 1);
    assert_well_behaved(&showing, &page);
}

#[tokio::test]
async fn it_can_be_read_without_colours_of_its_own_and_without_motion() {
    let (showing, mut page) = shown(views::everything()).await;
    page.media(&[("forced-colors", "active"), ("prefers-reduced-motion", "reduce")]).await;
    page.open(&showing.url()).await;
    page.until("document.querySelector('.cell[data-cell=busy]') !== null").await;
    let same = "getComputedStyle(document.querySelector('.cell[data-cell=busy]')).backgroundColor === getComputedStyle(document.querySelector('.cell[data-cell=idle]')).backgroundColor";
    assert_eq!(page.eval(same).await, json!(false), "what is busy looks different");
    page.until("/in \\d+ s$/.test(document.querySelector('.why .next').textContent)").await;
    assert_well_behaved(&showing, &page);
}

#[tokio::test]
async fn pictures_for_the_readme() {
    if env::var("CAROM_SCREENSHOTS").is_err() {
        return testkit::skip("CAROM_SCREENSHOTS is not set: the pictures stay as they are");
    }
    let (showing, mut page) = shown(views::everything()).await;
    for (name, light, width, height) in
        [("light", "light", 1280, 900), ("dark", "dark", 1280, 900), ("narrow", "light", 360, 780)]
    {
        page.media(&[("prefers-color-scheme", light)]).await;
        page.viewport(width, height).await;
        page.open(&showing.url()).await;
        page.until("document.body.dataset.link === 'live' && document.querySelector('.why .next') !== null").await;
        let picture = until(ms(10_000), async || {
            let picture = page.picture().await;
            if picture.len() < 300_000 { Ok(picture) } else { Err(format!("{} bytes", picture.len())) }
        })
        .await;
        fs::write(format!("{}/../docs/dashboard-{name}.png", env!("CARGO_MANIFEST_DIR")), picture)
            .expect("docs is there");
    }
}
