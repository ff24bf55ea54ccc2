//! Samples become numbers.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// The middle and the slow end.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Percentiles {
    pub(crate) p50: f64,
    pub(crate) p99: f64,
}

impl Percentiles {
    /// Of samples in any order. `None` without samples.
    pub(crate) fn of(mut samples: Vec<f64>) -> Option<Self> {
        samples.sort_by(f64::total_cmp);
        let at = |percent: usize| {
            let index = (samples.len() * percent).div_ceil(100).saturating_sub(1);
            samples.get(index).copied()
        };
        Some(Self { p50: rounded(at(50)?), p99: rounded(at(99)?) })
    }
}

/// Three digits behind the point are more than a measurement carries.
pub(crate) fn rounded(number: f64) -> f64 {
    (number * 1_000.0).round() / 1_000.0
}

/// A Prometheus histogram: how many samples were at most so large.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Histogram {
    /// Upper bound in thousandths (integers have an order) to cumulative count.
    buckets: BTreeMap<i64, u64>,
}

const INFINITE: i64 = i64::MAX;

impl Histogram {
    /// The histogram `name` in a page of metrics, summed over its labels.
    pub(crate) fn read(page: &str, name: &str) -> Self {
        let prefix = format!("{name}_bucket{{");
        let mut histogram = Self::default();
        for line in page.lines().filter_map(|line| line.strip_prefix(&prefix)) {
            if let Some((bound, count)) = bucket(line) {
                *histogram.buckets.entry(bound).or_default() += count;
            }
        }
        histogram
    }

    /// What was added since `earlier`.
    pub(crate) fn since(mut self, earlier: &Self) -> Self {
        for (bound, count) in &mut self.buckets {
            *count -= earlier.buckets.get(bound).copied().unwrap_or(0).min(*count);
        }
        self
    }

    /// Estimated within the bucket, as Prometheus does. `None` without samples.
    pub(crate) fn percentiles(&self) -> Option<Percentiles> {
        Some(Percentiles { p50: self.quantile(0.5)?, p99: self.quantile(0.99)? })
    }

    fn quantile(&self, share: f64) -> Option<f64> {
        let total = *self.buckets.get(&INFINITE)?;
        if total == 0 {
            return None;
        }
        let wanted = share * as_f64(total);
        let (mut lower, mut before) = (0.0, 0);
        for (bound, count) in &self.buckets {
            let upper = if *bound == INFINITE { lower } else { thousandths(*bound) };
            if as_f64(*count) >= wanted {
                let inside = as_f64(*count - before).max(1.0);
                let share = (wanted - as_f64(before)) / inside;
                return Some(rounded(lower + (upper - lower) * share));
            }
            (lower, before) = (upper, *count);
        }
        None
    }
}

fn bucket(labels_and_count: &str) -> Option<(i64, u64)> {
    let (labels, count) = labels_and_count.split_once('}')?;
    let bound = labels.split(',').find_map(|label| label.strip_prefix("le=\""))?;
    let bound = bound.strip_suffix('"')?;
    let bound = match bound {
        "+Inf" => INFINITE,
        number => to_thousandths(number.parse().ok()?),
    };
    Some((bound, count.trim().parse().ok()?))
}

#[expect(clippy::cast_possible_truncation, reason = "bounds of buckets are small")]
fn to_thousandths(number: f64) -> i64 {
    (number * 1_000.0).round() as i64
}

#[expect(clippy::cast_precision_loss, reason = "bounds of buckets are small")]
fn thousandths(number: i64) -> f64 {
    number as f64 / 1_000.0
}

#[expect(clippy::cast_precision_loss, reason = "counts stay far below 2^52")]
pub(crate) fn as_f64(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_samples() {
        let samples: Vec<f64> = (1..=200).rev().map(f64::from).collect();
        assert_eq!(Percentiles::of(samples), Some(Percentiles { p50: 100.0, p99: 198.0 }));
        assert_eq!(Percentiles::of(vec![7.0]), Some(Percentiles { p50: 7.0, p99: 7.0 }));
        assert_eq!(Percentiles::of(Vec::new()), None);
    }

    #[test]
    fn a_histogram_is_read_and_estimated() {
        let page = "\
# TYPE store_commit_ms histogram
store_commit_ms_sum 12.5
store_commit_ms_bucket{le=\"1.0\"} 50
store_commit_ms_bucket{le=\"2.0\"} 99
store_commit_ms_bucket{le=\"+Inf\"} 100
";
        let histogram = Histogram::read(page, "store_commit_ms");
        assert_eq!(histogram.percentiles(), Some(Percentiles { p50: 1.0, p99: 2.0 }));
        let nothing = histogram.clone().since(&histogram);
        assert_eq!(nothing.percentiles(), None);
    }
}
