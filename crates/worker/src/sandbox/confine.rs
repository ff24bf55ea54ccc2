//! Which files a program sees, by landlock, and which system calls it is refused, by seccomp.
//!
//! The list of calls names what is refused, so that unknown tools work; it is a second wall behind the
//! rights of the user and the rules for files.

use std::collections::BTreeMap;

use landlock::{
    ABI, Access as _, AccessFs, BitFlags, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _,
    RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope, path_beneath_rules,
};
use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

use crate::sandbox::launch::Orders;

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
pub(super) fn confine_files(orders: &Orders) -> Result<(), String> {
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

/// Refused with EPERM.
const REFUSED: [i64; 42] = [
    // Other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_kcmp,
    libc::SYS_pidfd_getfd,
    // Mounts and namespaces.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_unshare,
    libc::SYS_setns,
    // The kernel itself.
    libc::SYS_kexec_load,
    libc::SYS_kexec_file_load,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_syslog,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_acct,
    libc::SYS_quotactl,
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    // Keys of the user.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // Ways around these lists.
    libc::SYS_io_uring_setup,
    libc::SYS_open_by_handle_at,
    libc::SYS_name_to_handle_at,
];
/// Answered with ENOSYS, because its flags cannot be looked at; programs then use `clone`.
const UNKNOWN: [i64; 1] = [libc::SYS_clone3];

/// From here on this process and all that it becomes are refused these calls.
pub(super) fn refuse_calls(no_network: bool) -> Result<(), String> {
    let said = |error: &dyn std::fmt::Display| format!("calls cannot be refused: {error}");
    for (rules, errno) in [(unknown(), libc::ENOSYS), (refused(no_network)?, libc::EPERM)] {
        let program = program(rules, errno).map_err(|error| said(&error))?;
        apply_filter(&program).map_err(|error| said(&error))?;
    }
    Ok(())
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn unknown() -> Rules {
    UNKNOWN.into_iter().map(|call| (call, Vec::new())).collect()
}

fn refused(no_network: bool) -> Result<Rules, String> {
    let mut rules: Rules = REFUSED.into_iter().map(|call| (call, Vec::new())).collect();
    if no_network {
        // Sockets of any kind: one of this machine may lead to a service with a network.
        rules.insert(libc::SYS_socket, Vec::new());
    }
    let new_user = u64::from(libc::CLONE_NEWUSER.unsigned_abs());
    let flag = SeccompCmpOp::MaskedEq(new_user);
    let condition = SeccompCondition::new(0, SeccompCmpArgLen::Dword, flag, new_user);
    let rule = condition.and_then(|condition| SeccompRule::new(vec![condition]));
    rules.insert(libc::SYS_clone, vec![rule.map_err(|error| error.to_string())?]);
    Ok(rules)
}

fn program(rules: Rules, errno: i32) -> Result<BpfProgram, seccompiler::BackendError> {
    let refusal = SeccompAction::Errno(errno.unsigned_abs());
    let machine = std::env::consts::ARCH.try_into()?;
    SeccompFilter::new(rules, SeccompAction::Allow, refusal, machine)?.try_into()
}
