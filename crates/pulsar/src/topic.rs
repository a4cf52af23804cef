//! Names of topics, whole and short.

/// A name that is no topic's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{name}` is no topic: `topic`, `tenant/namespace/topic` or `persistent://tenant/namespace/topic`")]
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
    if parts.iter().any(|part| part.is_empty()) {
        return Err(refuse());
    }
    match parts[..] {
        [topic] if !name.contains("://") => Ok(format!("persistent://public/default/{topic}")),
        [_, _, _] | [_, _, _, _] => Ok(format!("{domain}://{rest}")),
        _ => Err(refuse()),
    }
}

/// Whether the messages of a topic, given by its whole name, are stored.
pub(crate) fn is_stored(topic: &str) -> bool {
    !topic.starts_with("non-persistent:")
}

/// The topics that a topic with partitions consists of.
pub(crate) fn partitions(topic: &str, partitions: u32) -> Vec<(String, i32)> {
    match partitions {
        0 => vec![(topic.to_owned(), -1)],
        _ => (0..partitions).map(|index| (format!("{topic}-partition-{index}"), index as i32)).collect(),
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
        for wrong in ["", "a/b", "a//b", "kafka://a/b/c", "persistent://orders"] {
            assert!(whole(wrong).is_err(), "{wrong}");
        }
    }
}
