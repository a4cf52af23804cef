//! A request's head as it is written, if there is nothing to it but that.

use crate::agent::body::Body;
use http::header::{CONNECTION, CONTENT_LENGTH, EXPECT, HeaderName, TRANSFER_ENCODING, UPGRADE};
use http::{Request, Version};
use http_body::Body as _;

/// A head that is longer might not be taken by the system in one go.
const LONGEST_HEAD: usize = 8 << 10;

/// What says that there is more to a request than its head, or something about the connection.
const NOT_PLAIN: [HeaderName; 5] = [CONNECTION, CONTENT_LENGTH, EXPECT, TRANSFER_ENCODING, UPGRADE];

/// Puts the head of a request into words, if that is all there is to it and it may be said twice; otherwise `line` means nothing.
pub(super) fn write(request: &Request<Body>, line: &mut Vec<u8>) -> bool {
    let (method, uri) = (request.method(), request.uri());
    let is_path = uri.scheme().is_none() && uri.authority().is_none();
    if !method.is_safe() || !is_path || request.version() != Version::HTTP_11 || !request.body().is_end_stream() {
        return false;
    }
    let is_long = uri.path_and_query().is_some_and(|target| target.as_str().len() > LONGEST_HEAD);
    if is_long {
        return false;
    }
    line.clear();
    line.extend_from_slice(method.as_str().as_bytes());
    line.push(b' ');
    line.extend_from_slice(uri.path().as_bytes());
    if let Some(query) = uri.query() {
        line.push(b'?');
        line.extend_from_slice(query.as_bytes());
    }
    line.extend_from_slice(b" HTTP/1.1\r\n");
    for (name, value) in request.headers() {
        // Before it is copied: `line` is kept, and is not to be as large as the largest head.
        let is_long = line.len() + name.as_str().len() + value.len() > LONGEST_HEAD;
        if is_long || NOT_PLAIN.contains(name) {
            return false;
        }
        line.extend_from_slice(name.as_str().as_bytes());
        line.extend_from_slice(b": ");
        line.extend_from_slice(value.as_bytes());
        line.extend_from_slice(b"\r\n");
    }
    line.extend_from_slice(b"\r\n");
    line.len() <= LONGEST_HEAD
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderValue, Method};

    fn request(method: &str, uri: &str) -> Request<Body> {
        Request::builder().method(method).uri(uri).header("host", "a.test").body(Body::empty()).unwrap()
    }

    fn written(request: &Request<Body>) -> Option<String> {
        let mut line = b"what was said before".to_vec();
        write(request, &mut line).then(|| String::from_utf8(line).unwrap())
    }

    #[test]
    fn a_head_says_what_the_request_says() {
        let mut get = request("GET", "/orders?all");
        get.headers_mut().append("x-a", HeaderValue::from_static("1"));
        get.headers_mut().append("x-a", HeaderValue::from_static(""));
        let said = "GET /orders?all HTTP/1.1\r\nhost: a.test\r\nx-a: 1\r\nx-a: \r\n\r\n";
        assert_eq!(written(&get).as_deref(), Some(said));
        assert_eq!(written(&request("OPTIONS", "*")).as_deref(), Some("OPTIONS * HTTP/1.1\r\nhost: a.test\r\n\r\n"));
        assert_eq!(written(&request("HEAD", "/")).as_deref(), Some("HEAD / HTTP/1.1\r\nhost: a.test\r\n\r\n"));
    }

    #[test]
    fn what_is_more_than_a_head_is_for_others() {
        for method in ["POST", "PUT", "DELETE", "PATCH", "CONNECT", "PURGE"] {
            assert_eq!(written(&request(method, "/")), None, "{method}: it must not be said twice");
        }
        for name in NOT_PLAIN {
            let mut more = request("GET", "/");
            more.headers_mut().insert(&name, HeaderValue::from_static("0"));
            assert_eq!(written(&more), None, "{name}");
        }
        let mut old = request("GET", "/");
        *old.version_mut() = Version::HTTP_10;
        assert_eq!(written(&old), None);
        assert_eq!(written(&request("GET", "/").map(|_| Body::from("{}"))), None);
        assert_eq!(written(&request(Method::GET.as_str(), "http://a.test/")), None, "that is for a proxy");
        let mut long = request("GET", "/");
        long.headers_mut().insert("x-a", HeaderValue::from_bytes(&[b'a'; 1 << 20]).unwrap());
        let mut line = Vec::new();
        assert!(!write(&long, &mut line) && line.capacity() <= 2 * LONGEST_HEAD, "{} are kept", line.capacity());
    }
}
