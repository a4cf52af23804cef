//! The dashboard: one page, embedded in the program, that asks nobody else for anything.
//!
//! Its parts are files as a browser reads them; nothing is built. They hold no data: the page asks `/api/events` for that.

/// A part of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asset {
    pub(super) content_type: &'static str,
    pub(super) body: &'static [u8],
}

/// What is found under this path, if it is a part of the page.
pub(super) fn find(path: &str) -> Option<Asset> {
    let name = if path == "/" { "index.html" } else { path.strip_prefix("/assets/")? };
    let (_, body) = PARTS.iter().find(|(part, _)| *part == name)?;
    let content_type = match name.rsplit_once('.')?.1 {
        "html" => "text/html; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "js" => "text/javascript; charset=utf-8",
        _ => "image/svg+xml",
    };
    Some(Asset { content_type, body })
}

macro_rules! parts {
    ($($name:literal),* $(,)?) => { &[$(($name, include_bytes!(concat!("page/", $name)))),*] };
}

const PARTS: &[(&str, &[u8])] = parts![
    "index.html",
    "style.css",
    "icon.svg",
    "app/backends.js",
    "app/board.js",
    "app/clock.js",
    "app/dom.js",
    "app/events.js",
    "app/feed.js",
    "app/gateway.js",
    "app/head.js",
    "app/holders.js",
    "app/keys.js",
    "app/main.js",
    "app/panel.js",
    "app/resolver.js",
    "app/spark.js",
    "app/stream.js",
    "app/strip.js",
    "app/trouble.js",
    "app/window.js",
    "app/words.js",
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;
    use std::fs;

    fn texts() -> impl Iterator<Item = (&'static str, &'static str)> {
        PARTS.iter().map(|(name, body)| (*name, std::str::from_utf8(body).expect("text")))
    }

    /// What stands between each `before` and the next `after`.
    fn between<'a>(text: &'a str, before: &'a str, after: char) -> impl Iterator<Item = &'a str> {
        text.split(before).skip(1).map(move |rest| rest.split(after).next().unwrap_or(rest))
    }

    #[test]
    fn what_is_there_is_found_and_nothing_else() {
        assert_eq!(find("/").expect("the page").content_type, "text/html; charset=utf-8");
        assert_eq!(find("/assets/app/main.js").expect("a script").content_type, "text/javascript; charset=utf-8");
        for path in ["", "/index.html", "/assets/", "/assets/../page.rs", "/assets/app", "/assets//style.css"] {
            assert_eq!(find(path), None, "{path}");
        }
    }

    #[test]
    fn everything_that_is_referred_to_exists_and_everything_that_exists_is_referred_to() {
        let mut named = BTreeSet::from(["index.html".to_owned()]);
        for (name, text) in texts() {
            match name.rsplit_once('.').expect("an ending").1 {
                "html" => {
                    for attribute in ["src=\"", "href=\""] {
                        let links = between(text, attribute, '"').filter(|link| !link.starts_with('#'));
                        named.extend(links.map(|link| link.strip_prefix("assets/").expect("an asset").to_owned()));
                    }
                }
                "js" => named.extend(between(text, "from './", '\'').map(|link| format!("app/{link}"))),
                _ => {}
            }
        }
        let there: BTreeSet<String> = PARTS.iter().map(|(name, _)| (*name).to_owned()).collect();
        assert_eq!(named, there);
        let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/admin/page/app");
        let written = fs::read_dir(folder).expect("the folder").count();
        assert_eq!(written, there.iter().filter(|name| name.starts_with("app/")).count(), "all of {folder}");
    }

    #[test]
    fn nobody_else_is_asked_for_anything() {
        for (name, text) in texts() {
            let text = text.replace("http://www.w3.org/2000/svg", "");
            for address in ["http:", "https:", "//cdn", "url(", "@import"] {
                assert!(!text.contains(address), "{name} has {address}");
            }
        }
    }

    #[test]
    fn there_is_no_script_or_style_in_the_page_itself_and_no_markup_is_made_of_text() {
        let page = texts().find(|(name, _)| *name == "index.html").expect("the page").1;
        for forbidden in [" style=", "<style", "javascript:", " on"] {
            let found = between(page, forbidden, '>').find(|rest| forbidden != " on" || is_handler(rest));
            assert_eq!(found, None, "{forbidden}");
        }
        for script in between(page, "<script", '<') {
            assert!(script.contains(" src=") && script.ends_with('>'), "{script}");
        }
        for (name, text) in texts().filter(|(name, _)| name.ends_with(".js")) {
            for way in [
                "innerHTML",
                "outerHTML",
                "insertAdjacentHTML",
                "document.write",
                "eval(",
                "new Function",
                "DOMParser",
                "srcdoc",
            ] {
                assert!(!text.contains(way), "{name} has {way}");
            }
        }
    }

    /// Whether an attribute goes on after ` on`, such as `onclick=`.
    fn is_handler(rest: &str) -> bool {
        let name: &str = rest.split(|letter: char| !letter.is_ascii_lowercase()).next().unwrap_or_default();
        !name.is_empty() && rest[name.len()..].starts_with('=')
    }

    #[test]
    fn it_is_small() {
        let size: usize = PARTS.iter().map(|(_, body)| body.len()).sum();
        assert!(size < 150 << 10, "{size} bytes");
    }
}
