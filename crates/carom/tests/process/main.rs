//! Integration tests of process-wide state: the global recorder of metrics.

#[cfg(feature = "metrics")]
mod monitor_metrics;
