//! JSON as it is written: keys in the order they are given, and JSON of others in between as it came.

/// An object that is being written at the end of a text.
pub(super) struct Object(String);

impl Object {
    /// Opens one at the end of this text.
    pub(super) fn open(mut out: String) -> Object {
        out.push('{');
        Object(out)
    }

    pub(super) fn text(mut self, key: &str, value: &str) -> Object {
        self.key(key);
        quote(&mut self.0, value);
        self
    }

    pub(super) fn number(self, key: &str, value: impl ToString) -> Object {
        self.json(key, &value.to_string())
    }

    /// The value must be JSON.
    pub(super) fn json(mut self, key: &str, value: &str) -> Object {
        self.key(key);
        self.0.push_str(value);
        self
    }

    pub(super) fn object(mut self, key: &str, fill: impl FnOnce(Object) -> Object) -> Object {
        self.key(key);
        Object(fill(Object::open(self.0)).close())
    }

    /// A list of objects.
    pub(super) fn objects<T>(
        self,
        key: &str,
        items: impl IntoIterator<Item = T>,
        fill: impl Fn(Object, T) -> Object,
    ) -> Object {
        self.list(key, items, |out, item| fill(Object::open(out), item).close())
    }

    /// A list of texts.
    pub(super) fn texts<S: AsRef<str>>(self, key: &str, items: impl IntoIterator<Item = S>) -> Object {
        self.list(key, items, |mut out, item| {
            quote(&mut out, item.as_ref());
            out
        })
    }

    pub(super) fn close(mut self) -> String {
        self.0.push('}');
        self.0
    }

    fn list<T>(mut self, key: &str, items: impl IntoIterator<Item = T>, write: impl Fn(String, T) -> String) -> Object {
        self.key(key);
        let mut out = self.0;
        out.push('[');
        for (index, item) in items.into_iter().enumerate() {
            if index > 0 {
                out.push(',');
            }
            out = write(out, item);
        }
        out.push(']');
        Object(out)
    }

    fn key(&mut self, key: &str) {
        // No value ends like this, so it is the object's own.
        if !self.0.ends_with('{') {
            self.0.push(',');
        }
        quote(&mut self.0, key);
        self.0.push(':');
    }
}

/// Writes a string at the end of this text.
pub(crate) fn quote(out: &mut String, text: &str) {
    if text.bytes().any(|byte| byte < b' ' || byte == b'"' || byte == b'\\') {
        out.push_str(&serde_json::Value::from(text).to_string());
    } else {
        out.push('"');
        out.push_str(text);
        out.push('"');
    }
}
