//! Which files a program sees, by landlock.

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};

use super::orders::Orders;

/// What programs need of a system to run at all, and nothing that tells of its people: no
/// `/etc/passwd`, no `/home`, no processes of others.
const SYSTEM: [&str; 25] = [
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/nix/store",
    "/etc/alternatives",
    "/etc/ca-certificates",
    "/etc/hosts",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/locale.alias",
    "/etc/localtime",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
    "/etc/pki",
    "/etc/resolv.conf",
    "/etc/ssl",
    "/proc/cpuinfo",
    "/proc/filesystems",
    "/proc/meminfo",
    "/proc/stat",
    "/sys/devices/system/cpu",
];
/// Devices that give and take nothing of others.
const DEVICES: [&str; 5] = ["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];
/// What a kernel must know: with less, a program could cut files that it may not write.
const NEEDED: ABI = ABI::V3;
/// What is used where a kernel knows it: devices in Linux 6.10, signals and abstract sockets of
/// others in Linux 6.12.
const WELCOME: ABI = ABI::V6;

/// From here on this process and all that it becomes see these files only.
pub(super) fn confine(orders: &Orders) -> Result<(), String> {
    let status = restrict(orders).map_err(|error| {
        format!("files cannot be hidden, which needs landlock of Linux 6.2 or newer: {error}")
    })?;
    match status {
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => Ok(()),
        RulesetStatus::NotEnforced => Err("files cannot be hidden: landlock is off".into()),
    }
}

fn restrict(orders: &Orders) -> Result<RulesetStatus, RulesetError> {
    let read = AccessFs::from_read(WELCOME);
    let device: BitFlags<AccessFs> =
        AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
    let everything = AccessFs::from_all(WELCOME);
    let writable = orders.read_write.iter().chain([&orders.folder]);
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(NEEDED))?
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(everything)?
        .scope(Scope::from_all(WELCOME))?
        .create()?
        .add_rules(path_beneath_rules(SYSTEM, read))?
        .add_rules(path_beneath_rules(DEVICES, device))?
        .add_rules(path_beneath_rules(&orders.read_only, read))?
        .add_rules(path_beneath_rules(writable, everything))?
        .restrict_self()?;
    Ok(status.ruleset)
}
