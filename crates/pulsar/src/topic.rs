//! Names of topics, whole and short.

/// A name that is no topic's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{}` is no topic: `topic`, `tenant/namespace/topic` or `persistent://tenant/namespace/topic` \
     (or `non-persistent://`; older ones are `persistent://tenant/cluster/namespace/topic`)",
    name.escape_debug()
)]
pub struct TopicError {
    /// What was given.
    pub name: String,
}

/// The whole name of a topic.
pub(crate) fn whole(name: &str) -> Result<String, TopicError> {
    let refuse = || TopicError { name: name.to_owned() };
    let (domain, rest) = match name.split_once("://") {
        Some((domain @ ("persistent" | "non-persistent"), rest)) => (domain, rest),
        Some(_) => return Err(refuse()),
        None => ("persistent", name),
    };
    let parts: Vec<&str> = rest.split('/').collect();
    if parts.iter().any(|part| part.trim().is_empty() || part.contains(char::is_control)) {
        return Err(refuse());
    }
    let short = !name.contains("://");
    match parts[..] {
        [topic] if short => Ok(format!("persistent://public/default/{topic}")),
        [_, _, _] => Ok(format!("{domain}://{rest}")),
        [_, _, _, _] if !short => Ok(format!("{domain}://{rest}")),
        _ => Err(refuse()),
    }
}

/// Whether the messages of a topic, given by its whole name, are stored.
pub(crate) fn is_stored(topic: &str) -> bool {
    !topic.starts_with("non-persistent:")
}

/// The most partitions that a broker is believed to have: each is a task and a producer or consumer of its own.
pub(crate) const MOST_PARTITIONS: u32 = 10_000;

/// The topics that a topic with partitions consists of. There are no more than [`MOST_PARTITIONS`]: see where they are asked for.
pub(crate) fn partitions(topic: &str, partitions: u32) -> Vec<(String, i32)> {
    match partitions {
        0 => vec![(topic.to_owned(), -1)],
        _ => (0..partitions).zip(0..).map(|(at, index)| (format!("{topic}-partition-{at}"), index)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_become_whole() {
        for (short, long) in [
            ("orders", "persistent://public/default/orders"),
            ("shop/eu/orders", "persistent://shop/eu/orders"),
            ("non-persistent://shop/eu/orders", "non-persistent://shop/eu/orders"),
            ("persistent://shop/cluster/eu/orders", "persistent://shop/cluster/eu/orders"),
        ] {
            assert_eq!(whole(short).as_deref(), Ok(long));
        }
        for wrong in ["", "a/b", "a//b", "kafka://a/b/c", "persistent://orders", "a/b/c/d", "persistent://a/b/c/d/e"] {
            assert!(whole(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn blanks_and_control_characters_are_no_names() {
        assert!(whole("a b").is_ok(), "a blank inside is");
        for wrong in [" ", "a/ /c", "a\nb", "a\0", "persistent://a/b/\t"] {
            assert!(whole(wrong).is_err(), "{wrong}");
        }
    }
}
