//! The table in `docs/monitoring.md` as what is rendered: every name, with its type and its labels.

use super::text_of_everything;
use std::collections::{BTreeMap, BTreeSet};

/// The type of a metric, and its labels.
#[derive(Debug, Default, PartialEq, Eq)]
struct Row {
    kind: String,
    labels: BTreeSet<String>,
}

#[tokio::test]
async fn the_table_has_everything_that_is_rendered_and_nothing_else() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/monitoring.md");
    let page = std::fs::read_to_string(path).expect("it is there");
    let documented = table(&page);
    let rendered = rendered(&text_of_everything().await);
    assert!(rendered.len() > 50, "{rendered:?}");
    for name in rendered.keys().chain(documented.keys()) {
        assert_eq!(documented.get(name), rendered.get(name), "{name}, documented and rendered");
    }
}

/// What the page says. A name that is there twice is nowhere.
fn table(page: &str) -> BTreeMap<String, Row> {
    let rows = page.lines().skip_while(|line| !line.starts_with("| metric |")).skip(2);
    let mut table = BTreeMap::new();
    for line in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [name, kind, labels, meaning] = cells[..] else { panic!("four columns: {line}") };
        assert!(!meaning.is_empty(), "{line}");
        let labels = labels.split(", ").filter(|label| *label != "none");
        let labels = labels.map(|label| in_full(label, name.contains("db_client_connection_"))).collect();
        let before = table.insert(name.trim_matches('`').to_owned(), Row { kind: kind.to_owned(), labels });
        assert_eq!(before, None, "{line}");
    }
    table
}

/// A label, from the page's word for it.
fn in_full(label: &str, of_pool: bool) -> String {
    match label {
        "pool" => "db_client_connection_pool_name".to_owned(),
        "backend" => "carom_backend".to_owned(),
        "state" if of_pool => "db_client_connection_state".to_owned(),
        "state" | "what" => label.to_owned(),
        other => format!("carom_{other}_name"),
    }
}

/// What is said to Prometheus. Lines of values follow that with their type.
fn rendered(text: &str) -> BTreeMap<String, Row> {
    let mut all: BTreeMap<String, Row> = BTreeMap::new();
    let mut last = String::new();
    for line in text.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            last = name.to_owned();
            all.insert(last.clone(), Row { kind: kind.to_owned(), ..Row::default() });
        } else if !line.starts_with('#')
            && let Some((_, labels)) = line.split_once('{')
            && let Some(row) = all.get_mut(&last)
        {
            // Nothing here has a value with a comma or an equals sign in it.
            let names = labels.split(',').filter_map(|label| label.split_once('=').map(|(name, _)| name));
            row.labels.extend(names.filter(|name| *name != "le").map(str::to_owned));
        }
    }
    all
}
