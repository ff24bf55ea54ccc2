//! System calls that tools have no use for and attacks have, refused by seccomp.
//!
//! The list names what is refused, so that unknown tools work; it is a second wall behind the
//! rights of the user and the rules for files.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, apply_filter,
};

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
pub(super) fn refuse(no_network: bool) -> Result<(), String> {
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
