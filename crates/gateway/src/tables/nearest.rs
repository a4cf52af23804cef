//! Which name was meant: those that are a few letters away from what was written.

/// What to say to whoever wrote `name` where one of `known` is accepted: the nearest of them, or all when none is near.
pub fn nearest(name: &str, known: &[&str]) -> String {
    if let Some(question) = did_you_mean(name, known.iter().copied()) {
        return question;
    }
    let mut known = known.to_vec();
    known.sort_unstable();
    known.dedup();
    format!("accepted: {}", quoted(&known).join(", "))
}

/// The same where there are too many to name all of them: nothing when none is near.
pub fn did_you_mean<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<String> {
    // A third of a name may be wrong, or two letters of a short one.
    let most = (name.chars().count() / 3).max(2);
    let near = |other: &'a str| Some((distance(name, other), other)).filter(|(distance, _)| *distance <= most);
    let mut close: Vec<_> = known.into_iter().filter_map(near).collect();
    close.sort_unstable();
    close.dedup();
    let close: Vec<&str> = close.into_iter().take(3).map(|(_, other)| other).collect();
    (!close.is_empty()).then(|| format!("did you mean {}?", quoted(&close).join(" or ")))
}

fn quoted(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| format!("`{name}`")).collect()
}

/// How many letters have to be put in, taken out or changed to get from one to the other. A small one is as good as a capital.
pub(crate) fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let changed = diagonal + usize::from(!a.eq_ignore_ascii_case(b));
            diagonal = row[j + 1];
            row[j + 1] = changed.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[to.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_few_letters_away_is_near() {
        let known = ["listen", "linger", "bus", "max_connections"];
        assert_eq!(nearest("listn", &known), "did you mean `listen`?");
        assert_eq!(nearest("max_conections", &known), "did you mean `max_connections`?");
        assert_eq!(nearest("MAX_CONNECTIONS", &known), "did you mean `max_connections`?");
        assert_eq!(nearest("linten", &known), "did you mean `listen` or `linger`?");
        assert_eq!(nearest("colour", &known), "accepted: `bus`, `linger`, `listen`, `max_connections`");
        assert_eq!(did_you_mean("colour", known), None);
    }

    #[test]
    fn distances_are_counted_in_letters() {
        for (from, to, expected) in [
            ("", "", 0),
            ("", "abc", 3),
            ("abc", "abc", 0),
            ("kitten", "sitting", 3),
            ("é", "e", 1),
            ("Listen", "LISTEN", 0),
        ] {
            assert_eq!(distance(from, to), expected, "{from} {to}");
            assert_eq!(distance(to, from), expected, "{to} {from}");
        }
    }
}
