//! The admin listener: what people and programs can ask of this one, by HTTP. Nothing can be changed there.
//!
//! It is not for clients of services: few at a time, short heads, no bodies. Who may stay is decided by the [`places`], who may ask by
//! the [`guard`], what can be asked is in [`paths`], and what is seen is looked up by [`looking`].

mod answer;
mod events;
mod guard;
mod health;
mod history;
mod keeper;
mod looking;
mod metrics;
mod page;
mod paths;
mod places;
mod server;
mod taken;
pub(crate) mod view;

pub(crate) use keeper::Keeper;
pub(crate) use server::Server;
