//! Every pool has its turn in every round, so that a disturbance from outside does not hit one of them alone.

use crate::measure::{Contended, Cut, Effort, median};
use crate::peers::Entry;

/// What one measurement gave in each round, or why it was given up.
pub type Series<T> = Result<Vec<T>, Cut>;

/// One pool's figures, round by round.
pub struct Rounds {
    pub pool: &'static str,
    pub alone: Series<f64>,
    pub alone_of_three: Series<f64>,
    pub spread: Series<f64>,
    pub contended: Series<Contended>,
}

/// In the order of the entries.
pub fn measure(effort: &Effort, entries: &[&Entry]) -> Vec<Rounds> {
    let nothing_yet = |entry: &&Entry| Rounds {
        pool: entry.name,
        alone: Ok(vec![]),
        alone_of_three: Ok(vec![]),
        spread: Ok(vec![]),
        contended: Ok(vec![]),
    };
    let mut all: Vec<Rounds> = entries.iter().map(nothing_yet).collect();
    for round in 1..=effort.rounds {
        eprintln!("round {round} of {}", effort.rounds);
        for (rounds, entry) in all.iter_mut().zip(entries) {
            extend(&mut rounds.alone, || (entry.alone)(effort));
            match entry.alone_of_three {
                Some(of_three) => extend(&mut rounds.alone_of_three, || of_three(effort)),
                None => rounds.alone_of_three.clone_from(&rounds.alone),
            }
            extend(&mut rounds.spread, || (entry.spread)(effort));
            extend(&mut rounds.contended, || (entry.contended)(effort));
        }
    }
    all
}

/// A measurement that was cut once is not tried again.
pub fn extend<T>(series: &mut Series<T>, measurement: impl FnOnce() -> Result<T, Cut>) {
    if let Ok(rounds) = series {
        match measurement() {
            Ok(figures) => rounds.push(figures),
            Err(cut) => *series = Err(cut),
        }
    }
}

/// The median of the shares within each round, which a busy machine disturbs less than the share of the medians.
pub fn share<T>(series: &Series<T>, plain: &Series<T>, figure: fn(&T) -> f64) -> Result<f64, Cut> {
    let (series, plain) = (series.as_ref().map_err(|cut| *cut)?, plain.as_ref().map_err(|cut| *cut)?);
    Ok(median(series.iter().zip(plain).map(|(own, plain)| figure(own) / figure(plain)).collect()))
}
