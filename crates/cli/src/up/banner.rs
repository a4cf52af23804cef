//! What `carom up` says when everything runs: what, where, and for whom.

use super::Request;
use super::board::Board;
use crate::admin::Keeper;
use crate::config::Layered;

/// A line or two for everything that runs, with the addresses that it really has.
pub(super) fn of(request: &Request, admin: &Keeper, board: &Board) -> String {
    let mut text = admin.summary(request.admin.as_ref());
    let state = board.lock();
    for Layered { value: service, origin } in &request.services {
        let at =
            state.services.get(&service.name).map_or(service.listen, |served| served.running.view().snapshot().listen);
        text += &service.summary(at, origin);
    }
    if let Some(gateway) = state.gateway.serving() {
        text += &gateway.summary();
    }
    text
}
