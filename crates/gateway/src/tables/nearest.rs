//! Which name was meant: those that are a few letters away from what was written.

/// What to say to whoever wrote `name` where one of `known` is accepted: the nearest of them, or all when none is near.
pub fn nearest(name: &str, known: &[&str]) -> String {
    let mut known = known.to_vec();
    known.sort_unstable();
    known.dedup();
    // A third of a name may be wrong, or two letters of a short one.
    let near = |other: &&&str| distance(name, other) <= (name.chars().count() / 3).max(2);
    let mut close: Vec<_> = known.iter().filter(near).collect();
    close.sort_by_key(|other| distance(name, other));
    close.truncate(3);
    let quoted = |names: &mut dyn Iterator<Item = &str>| names.map(|name| format!("`{name}`")).collect::<Vec<_>>();
    if close.is_empty() {
        return format!("accepted: {}", quoted(&mut known.iter().copied()).join(", "));
    }
    format!("did you mean {}?", quoted(&mut close.into_iter().copied()).join(" or "))
}

/// How many letters have to be put in, taken out or changed to get from one to the other.
fn distance(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (i, a) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, b) in to.iter().enumerate() {
            let changed = diagonal + usize::from(a != *b);
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
        assert_eq!(nearest("linten", &known), "did you mean `listen` or `linger`?");
        assert_eq!(nearest("colour", &known), "accepted: `bus`, `linger`, `listen`, `max_connections`");
    }

    #[test]
    fn distances_are_counted_in_letters() {
        for (from, to, expected) in
            [("", "", 0), ("", "abc", 3), ("abc", "abc", 0), ("kitten", "sitting", 3), ("é", "e", 1)]
        {
            assert_eq!(distance(from, to), expected, "{from} {to}");
            assert_eq!(distance(to, from), expected, "{to} {from}");
        }
    }
}
