//! Integration tests of process-wide state: the global recorder of metrics.

mod monitor_metrics;
