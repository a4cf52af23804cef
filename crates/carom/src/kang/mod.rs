//! The monitor over HTTP, in the shapes of kang: what a program holds, for kang's own clients and for `curl`.
//!
//! Kang shows a program as objects of a few types. Those that cueball shows have its types and its fields: `pool`, `set` and `dns_res`,
//! which is any resolver. `window`, `feed` and `gateway` are ours.
//!
//! | path | answer |
//! |---|---|
//! | `/kang/snapshot` | everything: `service`, `stats`, `types`, and of each type the objects by id |
//! | `/kang/types` | the types |
//! | `/kang/objects/<type>` | the ids of its objects |
//! | `/kang/obj/<type>/<id>` | one object |
//!
//! ```
//! use carom::Monitor;
//! use http::Method;
//!
//! let kang = Monitor::new().kang().service("orders");
//! let answer = kang.answer(&Method::GET, "/kang/types");
//! assert_eq!(answer.status(), 200);
//! assert_eq!(answer.body().bytes(), br#"["pool","set","dns_res","window","feed","gateway"]"#);
//! assert_eq!(kang.answer(&Method::GET, "/kang/objects/sets").status(), 404);
//! ```
//!
//! It is a tower service too, of requests with any body, and can be mounted wherever one serves HTTP. It shows names, addresses and
//! errors to whoever may ask: who that is, is for the one who mounts it to say.

mod body;
mod date;
mod fields;
mod path;
mod service;

pub use body::Body;

use crate::monitor::{Id, Monitor, Object, Seen, Snapshot};
use fields::{Kind, fields};
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_LENGTH, CONTENT_TYPE, HeaderValue};
use http::{Method, Response, StatusCode};
use path::{Asked, Unknown};
use serde_json::{Map, Value, json};
use std::sync::Arc;
use std::time::SystemTime;

impl Monitor {
    /// What it sees, over HTTP, in the shapes of kang; see [`kang`](crate::kang). With the feature `kang`.
    pub fn kang(&self) -> Kang {
        Kang::new(self.clone())
    }
}

/// Shows a [`Monitor`] in the shapes of kang; made by [`Monitor::kang`]. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Kang {
    monitor: Monitor,
    identity: Arc<Identity>,
}

/// Who answers.
#[derive(Clone, Debug)]
struct Identity {
    name: String,
    component: Option<String>,
    ident: String,
    version: String,
    started: String,
}

impl Kang {
    fn new(monitor: Monitor) -> Kang {
        let identity = Identity {
            name: "carom".to_owned(),
            component: None,
            ident: host().unwrap_or_else(|| "localhost".to_owned()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            started: date::iso(SystemTime::now()),
        };
        Kang { monitor, identity: Arc::new(identity) }
    }

    /// What the service is called that this process is a part of. Default `carom`.
    #[must_use]
    pub fn service(self, name: impl Into<String>) -> Kang {
        self.with(|identity| identity.name = name.into())
    }

    /// Which part of the service this process is. Default none.
    #[must_use]
    pub fn component(self, component: impl Into<String>) -> Kang {
        self.with(|identity| identity.component = Some(component.into()))
    }

    /// Which one of all that serve this is. Default: the name of the host.
    #[must_use]
    pub fn ident(self, ident: impl Into<String>) -> Kang {
        self.with(|identity| identity.ident = ident.into())
    }

    /// The service's version. Default: that of this crate.
    #[must_use]
    pub fn version(self, version: impl Into<String>) -> Kang {
        self.with(|identity| identity.version = version.into())
    }

    fn with(mut self, change: impl FnOnce(&mut Identity)) -> Kang {
        change(Arc::make_mut(&mut self.identity));
        self
    }

    /// The answer to a request: `path` as it was sent, with or without its query. Any path gets an answer.
    pub fn answer(&self, method: &Method, path: &str) -> Response<Body> {
        if method != Method::GET && method != Method::HEAD {
            let mut refused = told(method, StatusCode::METHOD_NOT_ALLOWED, &json!({"error": "only GET and HEAD"}));
            refused.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
            return refused;
        }
        match Asked::of(path).and_then(|asked| self.find(&asked)) {
            Ok(found) => told(method, StatusCode::OK, &found),
            Err(unknown) => told(method, StatusCode::NOT_FOUND, &json!({"error": unknown.to_string()})),
        }
    }

    fn find(&self, asked: &Asked) -> Result<Value, Unknown> {
        match asked {
            Asked::Snapshot => Ok(self.everything()),
            Asked::Types => Ok(Kind::ALL.iter().map(|kind| kind.name()).collect()),
            Asked::Objects(kind) => {
                let snapshot = self.monitor.snapshot();
                let ids = snapshot.objects.iter().filter(|seen| Kind::of(&seen.object) == *kind);
                Ok(ids.map(|seen| seen.id.to_string()).collect())
            }
            Asked::Object(kind, id) => self.one(*kind, *id).ok_or(Unknown::Object(*kind)),
        }
    }

    fn everything(&self) -> Value {
        let Identity { name, component, ident, version, started } = &*self.identity;
        let mut service = json!({"name": name, "ident": ident, "version": version});
        if let Some(component) = component {
            service["component"] = json!(component);
        }
        let snapshot = self.monitor.snapshot();
        let types: Vec<&str> = Kind::ALL.iter().map(|kind| kind.name()).collect();
        let mut all = Map::new();
        all.insert("service".to_owned(), service);
        all.insert("stats".to_owned(), json!({"started": started}));
        all.insert("types".to_owned(), json!(types));
        for kind in Kind::ALL {
            let of_kind = snapshot.objects.iter().filter(|seen| Kind::of(&seen.object) == kind);
            let objects: Map<String, Value> =
                of_kind.map(|seen| (seen.id.to_string(), fields(seen, &snapshot))).collect();
            all.insert(kind.name().to_owned(), objects.into());
        }
        Value::Object(all)
    }

    /// One object. Nobody else is looked at but its resolver, who knows some of its fields.
    fn one(&self, kind: Kind, id: Id) -> Option<Value> {
        let seen = self.monitor.object(id).filter(|seen| Kind::of(&seen.object) == kind)?;
        let resolver: Option<Seen> = resolver_of(&seen.object).and_then(|id| self.monitor.object(id));
        let snapshot = Snapshot::of(resolver.into_iter().collect());
        Some(fields(&seen, &snapshot))
    }
}

fn resolver_of(object: &Object) -> Option<Id> {
    match object {
        Object::Pool(pool) => pool.resolver,
        Object::Set(set) => set.resolver,
        Object::Resolver(_) | Object::Window(_) | Object::Feed(_) | Object::Gateway(_) => None,
    }
}

fn told(method: &Method, status: StatusCode, json: &Value) -> Response<Body> {
    let text = json.to_string();
    let length = text.len();
    // Who asks for the head alone is told how long the rest would have been.
    let body = if method == Method::HEAD { Body::default() } else { Body::from(text) };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(CONTENT_LENGTH, HeaderValue::from(length));
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

/// The name of this host, where there is a file that has it.
fn host() -> Option<String> {
    let read = |path| std::fs::read_to_string(path).ok();
    let name = read("/proc/sys/kernel/hostname").or_else(|| read("/etc/hostname"))?;
    Some(name.trim().to_owned()).filter(|name| !name.is_empty())
}
