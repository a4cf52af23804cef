//! Where a feed's credential is found: the keys `credential`, `credential_file` and `credential_command`.

use super::super::File;
use super::super::values::name;
use carom_gateway::credential::Credential;
use carom_gateway::tables::{Table, TableError, Value};

/// Which key says where it is found, and where that is.
pub(super) fn take(table: &mut Table, file: &File<'_>) -> Result<Option<(&'static str, Credential)>, TableError> {
    let fixed = table.read("credential", "a text", name)?.map(Credential::fixed);
    let path =
        table.read("credential_file", "the name of a file", name)?.map(|name| Credential::file(file.beside(name)));
    let accepted = "a program and its arguments, such as [\"get-token\", \"--today\"]";
    let command = table.read("credential_command", accepted, command)?.map(Credential::command);
    let given = [("credential", fixed), ("credential_file", path), ("credential_command", command)];
    let mut given = given.into_iter().filter_map(|(key, credential)| Some((key, credential?)));
    let first = given.next();
    match (first, given.next()) {
        (Some((first, _)), Some((second, _))) => {
            Err(table.wrong(second, format_args!("there is {first} too; accepted: one of them")))
        }
        (first, _) => Ok(first),
    }
}

fn command(value: Value) -> Result<Vec<String>, String> {
    let argv = value.texts()?;
    if argv.first().is_none_or(|program| program.is_empty()) { Err("no program is named".to_owned()) } else { Ok(argv) }
}
