//! What the program says of itself: completions and manual pages.

use crate::args::Args;
use crate::failure::Failure;
use clap::CommandFactory;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, roman};
use std::io::{self, Write};

pub(crate) fn completions(shell: Shell) -> Result<(), Failure> {
    // Generating panics where writing fails, so that it goes to memory first.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Args::command(), "carom", &mut script);
    print(&script)
}

pub(crate) fn man(words: &[String]) -> Result<(), Failure> {
    let mut carom = Args::command();
    // Gives commands the name that they have in full.
    carom.build();
    let mut page = &carom;
    for word in words {
        page = page.find_subcommand(word).ok_or_else(|| no_command(page, word))?;
    }
    print(&render(page.clone())?)
}

fn no_command(of: &clap::Command, word: &str) -> Failure {
    let known: Vec<_> = of.get_subcommands().map(|command| command.get_name()).collect();
    let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
    Failure::Usage(format!("`{}` is no command of {}; there are {known}", word.escape_debug(), of.get_name()))
}

/// A page. Its last section is ours: clap's own would run the lines of examples together.
fn render(command: clap::Command) -> io::Result<Vec<u8>> {
    let mut page = Vec::new();
    let notes = command.get_after_help().map(ToString::to_string);
    let has_commands = command.get_subcommands().next().is_some();
    let man = Man::new(command).source(concat!("carom ", env!("CARGO_PKG_VERSION"))).manual("carom");
    man.render_title(&mut page)?;
    man.render_name_section(&mut page)?;
    man.render_synopsis_section(&mut page)?;
    man.render_description_section(&mut page)?;
    man.render_options_section(&mut page)?;
    if has_commands {
        man.render_subcommands_section(&mut page)?;
    }
    if let Some(notes) = notes {
        let mut section = Roff::new();
        section.control("SH", ["NOTES"]).control("nf", []);
        for line in notes.lines() {
            section.text([roman(line)]);
        }
        section.control("fi", []).to_writer(&mut page)?;
    }
    Ok(page)
}

fn print(bytes: &[u8]) -> Result<(), Failure> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    Ok(stdout.flush()?)
}
