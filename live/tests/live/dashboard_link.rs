//! The dashboard and its stream: what becomes of the page when the program hangs, tells what nobody understands, or nobody looks.

use carom_live::chromium::Chromium;
use carom_live::showing::{Refused, Showing};
use carom_live::{ms, until, views};
use serde_json::{Value, json};

/// A page that shows one of everything.
async fn shown() -> (Showing, Chromium) {
    let showing = Showing::start(views::everything()).await;
    let mut page = Chromium::start().await;
    page.open(&showing.url()).await;
    page.until(LIVE).await;
    (showing, page)
}

const LIVE: &str = "document.body.dataset.link === 'live' && document.querySelector('.panel') !== null";

/// How many streams were asked for.
fn streams(page: &Chromium) -> usize {
    page.noted().requested.iter().filter(|url| url.ends_with("/api/events")).count()
}

/// Times of so many milliseconds are over soon.
fn shortened(ms: u64) -> String {
    format!(
        "window.setTimeout = ((real) => (act, ms, ...more) => real(act, ms === {ms} ? 50 : ms, ...more))(setTimeout)"
    )
}

/// Whether the tab is hidden, as its script is told.
fn hidden(is: bool) -> String {
    format!(
        "Object.defineProperty(document, 'hidden', {{ configurable: true, get: () => {is} }});
         document.dispatchEvent(new Event('visibilitychange'))"
    )
}

#[tokio::test]
async fn a_program_that_hangs_is_not_shown_as_live() {
    let (showing, mut page) = shown().await;
    showing.freeze(true);
    page.shows("Connection lost.").await;
    page.shows("Nothing was heard for 10 s.").await;
    page.until("document.title.startsWith('not live: ')").await;
    // Connections are taken, and nobody answers: it is not live for that.
    page.shows("Trying …").await;
    assert_eq!(page.eval("document.body.dataset.link").await, "lost");
    // Whoever does not want to wait does not have to.
    let asked = streams(&page);
    page.eval("document.querySelector('#retry').click()").await;
    until(ms(30_000), async || if streams(&page) > asked { Ok(()) } else { Err(format!("{asked} as before")) }).await;
    assert_eq!(page.eval("document.body.dataset.link").await, "lost");
    showing.freeze(false);
    page.until(LIVE).await;
    page.until("document.querySelector('#lost').hidden && document.title.startsWith('degraded: ')").await;
}

#[tokio::test]
async fn what_cannot_be_drawn_is_told_and_not_asked_for_again_and_again() {
    let (showing, mut page) = shown().await;
    let mut odd = views::everything();
    odd["program"]["version"] = json!("9.0.0");
    odd["monitor"]["objects"] = Value::Null;
    showing.show(odd.clone());
    page.shows("What version 9.0.0 tells cannot be shown here").await;
    odd.as_object_mut().expect("an object").remove("monitor");
    for host in ["other-1", "other-2"] {
        odd["program"]["host"] = json!(host);
        showing.show(odd.clone());
        page.shows(host).await;
    }
    assert_eq!(page.eval("document.body.dataset.link").await, "live");
    let mut good = views::everything();
    good["program"]["version"] = json!("9.0.0");
    showing.show(good);
    page.shows("It came with 0.1.0, and the program is 9.0.0 by now.").await;
    // Not at once: the page is left before the browser has responded.
    page.eval("window.same = true; setTimeout(() => document.querySelector('#reload').click())").await;
    page.until("window.same === undefined && document.readyState === 'complete'").await;
    page.until(LIVE).await;
    assert_eq!(page.eval("document.querySelector('#odd').hidden").await, json!(true));
    assert_eq!(streams(&page), 2, "one, and another when it was loaded again");
    assert_eq!(page.noted().complaints, Vec::<String>::new());
}

#[tokio::test]
async fn streams_that_end_with_their_first_event_are_asked_for_less_and_less() {
    let (showing, mut page) = shown().await;
    showing.curtail(true);
    page.shows("The stream ended.").await;
    page.until("document.querySelector('#lost-next').textContent.startsWith('Next try in ')").await;
    // Five delays, each twice the last: whoever began anew at the first one each time would never wait that long.
    page.until("/^Next try in [3-9]/.test(document.querySelector('#lost-next').textContent)").await;
    showing.curtail(false);
    page.eval("document.querySelector('#retry').click()").await;
    page.until("document.body.dataset.link === 'live' && document.querySelector('#lost').hidden").await;
}

#[tokio::test]
async fn a_tab_that_nobody_sees_draws_nothing_and_lets_its_stream_go() {
    let (showing, mut page) = shown().await;
    let mut view = views::empty();
    view["program"]["host"] = json!("unseen-1");
    page.eval(&hidden(true)).await;
    showing.show(view.clone());
    page.until("document.title === 'unseen-1 – carom up'").await;
    assert_ne!(page.eval("document.querySelectorAll('.panel').length").await, 0, "that would be work for nobody");
    page.eval(&hidden(false)).await;
    page.shows("Nothing is held.").await;
    assert_eq!(streams(&page), 1);
    // For longer: there is no stream any more, and the title says that it is not known.
    page.eval(&shortened(30_000)).await;
    page.eval(&hidden(true)).await;
    page.until("document.title === 'paused: unseen-1 – carom up'").await;
    view["program"]["host"] = json!("unseen-2");
    showing.show(view);
    assert_eq!(streams(&page), 1);
    page.eval(&hidden(false)).await;
    page.until("document.body.dataset.link === 'live' && document.title === 'unseen-2 – carom up'").await;
    assert_eq!(streams(&page), 2);
    assert_eq!(page.noted().complaints, Vec::<String>::new());
}

#[tokio::test]
async fn where_too_many_listen_it_asks_and_says_so() {
    let (showing, mut page) = shown().await;
    showing.refuse(Refused::Listeners);
    page.until("document.querySelector('#link').textContent === 'every 3 s'").await;
    assert_eq!(page.eval("document.querySelector('#lost').hidden").await, json!(true));
    let mut view = views::empty();
    for host in ["other-1", "other-2"] {
        view["program"]["host"] = json!(host);
        showing.show(view.clone());
        page.shows(host).await;
    }
    // Where nobody is told anything, it is told why, in the server's words.
    showing.refuse(Refused::Everybody);
    page.shows("The server answered 503: too many listen already; /api/snapshot answers still.").await;
    assert_eq!(page.eval("document.body.dataset.link").await, "lost");
    showing.refuse(Refused::Nobody);
    page.eval("document.querySelector('#retry').click()").await;
    page.until("document.body.dataset.link === 'live' && document.querySelector('#link').textContent === 'live'").await;
}

#[tokio::test]
async fn it_works_where_nothing_may_be_kept() {
    let showing = Showing::start(views::everything()).await;
    let mut page = Chromium::start().await;
    let forbid =
        "Object.defineProperty(window, 'sessionStorage', { get() { throw new DOMException('no', 'SecurityError'); } })";
    page.prepare(forbid).await;
    page.open(&showing.url()).await;
    page.until(LIVE).await;
    assert_eq!(page.noted().complaints, Vec::<String>::new());
}
