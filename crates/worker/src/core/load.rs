//! How busy this machine is.

use std::fs;
use std::path::PathBuf;

/// What is used, in percent; `None` where the system does not tell.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Shares {
    pub(crate) cpu: Option<f64>,
    pub(crate) mem: Option<f64>,
    pub(crate) disk: Option<f64>,
}

/// Memory from which a machine counts as short of it (seed 000 section 6).
const MEM_PCT_HIGH: f64 = 90.0;
/// Disk from which a machine counts as short of it (seed 000 section 6).
const DISK_PCT_HIGH: f64 = 95.0;

impl Shares {
    /// Whether the machine is short of something.
    pub(crate) fn is_degraded(&self) -> bool {
        self.mem.is_some_and(|share| share >= MEM_PCT_HIGH)
            || self.disk.is_some_and(|share| share >= DISK_PCT_HIGH)
    }
}

/// Measures; the load of the processors since the measure before.
#[derive(Debug)]
pub(crate) struct Load {
    folder: PathBuf,
    last: Option<CpuTimes>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CpuTimes {
    idle: u64,
    total: u64,
}

impl Load {
    /// `folder` is where this worker writes.
    pub(crate) fn new(folder: PathBuf) -> Self {
        Self { folder, last: read_cpu() }
    }

    pub(crate) fn measure(&mut self) -> Shares {
        let now = read_cpu();
        let cpu = self.last.zip(now).and_then(|(last, now)| busy(last, now));
        self.last = now;
        let mem = fs::read_to_string("/proc/meminfo").ok().and_then(|text| mem_used(&text));
        Shares { cpu, mem, disk: self.disk_used() }
    }

    fn disk_used(&self) -> Option<f64> {
        let disk = rustix::fs::statvfs(&self.folder).ok()?;
        // As `df` counts: what is kept for the administrator is neither used nor free.
        let used = disk.f_blocks.saturating_sub(disk.f_bfree);
        share(used, used + disk.f_bavail)
    }
}

fn read_cpu() -> Option<CpuTimes> {
    cpu_times(&fs::read_to_string("/proc/stat").ok()?)
}

fn cpu_times(stat: &str) -> Option<CpuTimes> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let times: Option<Vec<u64>> = line.split_whitespace().map(|time| time.parse().ok()).collect();
    let times = times?;
    // Of ten columns the last two, the time of guests, are counted in the first two already.
    let total = times.iter().take(8).sum();
    let idle = times.iter().skip(3).take(2).sum();
    Some(CpuTimes { idle, total })
}

fn busy(last: CpuTimes, now: CpuTimes) -> Option<f64> {
    let total = now.total.saturating_sub(last.total);
    let idle = now.idle.saturating_sub(last.idle).min(total);
    share(total - idle, total)
}

/// Memory in KiB: all of it, and what is free or could be.
pub(crate) fn memory_kib(meminfo: &str) -> Option<(u64, u64)> {
    let field = |name: &str| {
        let line = meminfo.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').split_whitespace().next()?.parse::<u64>().ok()
    };
    Some((field("MemTotal")?, field("MemAvailable")?))
}

fn mem_used(meminfo: &str) -> Option<f64> {
    let (total, available) = memory_kib(meminfo)?;
    share(total.saturating_sub(available), total)
}

/// To a tenth of a percent.
fn share(part: u64, whole: u64) -> Option<f64> {
    let tenths = u128::from(part) * 1000 / u128::from(whole).max(1);
    let tenths = u32::try_from(tenths).ok()?;
    (whole > 0).then(|| f64::from(tenths) / 10.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_computed_from_what_the_system_tells() {
        let last = cpu_times("cpu  100 0 100 700 100 0 0 0 9 9\ncpu0 1 2 3").expect("read");
        assert_eq!(last, CpuTimes { idle: 800, total: 1000 });
        let now = CpuTimes { idle: 850, total: 1200 };
        assert_eq!(busy(last, now), Some(75.0));
        assert_eq!(busy(now, now), None, "no time has passed");
        let meminfo = "MemTotal:       1000 kB\nMemFree: 1 kB\nMemAvailable:    250 kB\n";
        assert_eq!(mem_used(meminfo), Some(75.0));
        assert_eq!(mem_used("MemTotal: x kB"), None);
    }

    #[test]
    fn this_machine_tells_all_of_them() {
        let mut load = Load::new("/".into());
        let shares = load.measure();
        for share in [shares.mem, shares.disk] {
            assert!(share.is_some_and(|share| (0.0..=100.0).contains(&share)), "{shares:?}");
        }
    }

    #[test]
    fn a_machine_without_memory_or_disk_is_degraded() {
        let well = Shares { cpu: Some(100.0), mem: Some(89.9), disk: Some(94.9) };
        assert!(!well.is_degraded());
        assert!(Shares { mem: Some(90.0), ..well }.is_degraded());
        assert!(Shares { disk: Some(95.0), ..well }.is_degraded());
    }
}
