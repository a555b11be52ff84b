//! Security contexts of pods and containers.

use super::super::at::At;
use crate::field::Errors;

const MOST: i64 = i32::MAX as i64;

fn id(at: &At<'_, '_>, errors: &mut Errors) {
    if at.is_set() {
        at.within(0, MOST, errors);
    }
}

/// The security context of a container.
pub fn container(at: &At<'_, '_>, host_users: bool, errors: &mut Errors) {
    if !at.is_set() {
        return;
    }
    id(&at.child("runAsUser"), errors);
    id(&at.child("runAsGroup"), errors);
    let proc_mount = at.child("procMount");
    proc_mount.one_of(errors, &["Default", "Unmasked"]);
    if host_users && proc_mount.text() == "Unmasked" {
        proc_mount.invalid(errors, "`hostUsers` must be false to use `Unmasked`");
    }
    seccomp(&at.child("seccompProfile"), errors);
    if at.child("allowPrivilegeEscalation").value == &everflow_json::Value::Bool(false) {
        if at.child("privileged").is_true() {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            at.invalid_internal(errors, "core.SecurityContext", detail);
        }
        let capabilities = at.child("capabilities");
        for _ in capabilities
            .child("add")
            .texts()
            .iter()
            .filter(|name| **name == "CAP_SYS_ADMIN")
        {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            at.invalid_internal(errors, "core.SecurityContext", detail);
        }
    }
    windows(&at.child("windowsOptions"), errors);
    app_armor(&at.child("appArmorProfile"), errors);
}

/// The security context of a pod.
pub fn pod(at: &At<'_, '_>, spec: &At<'_, '_>, errors: &mut Errors) {
    if !at.is_set() {
        return;
    }
    id(&at.child("fsGroup"), errors);
    id(&at.child("runAsUser"), errors);
    id(&at.child("runAsGroup"), errors);
    at.child("supplementalGroups")
        .items()
        .for_each(|group| id(&group, errors));
    let share = at.named(
        spec.child("shareProcessNamespace").value,
        "shareProcessNamespace",
    );
    if share.is_true() && spec.child("hostPID").is_true() {
        share.invalid(
            errors,
            "ShareProcessNamespace and HostPID cannot both be enabled",
        );
    }
    sysctls(&at.child("sysctls"), spec, errors);
    at.child("fsGroupChangePolicy")
        .one_of(errors, &["Always", "OnRootMismatch"]);
    seccomp(&at.child("seccompProfile"), errors);
    windows(&at.child("windowsOptions"), errors);
    app_armor(&at.child("appArmorProfile"), errors);
    at.child("supplementalGroupsPolicy")
        .one_of(errors, &["Merge", "Strict"]);
    at.child("seLinuxChangePolicy")
        .one_of(errors, &["MountOption", "Recursive"]);
}

fn is_sysctl(name: &str) -> bool {
    let part = |part: &str| {
        let plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        part.bytes()
            .all(|byte| plain(byte) || matches!(byte, b'-' | b'_'))
            && part.bytes().next().is_some_and(plain)
            && part.bytes().last().is_some_and(plain)
    };
    name.len() <= 253 && name.split(['.', '/']).all(part)
}

fn sysctls(at: &At<'_, '_>, spec: &At<'_, '_>, errors: &mut Errors) {
    let mut seen: Vec<&str> = Vec::new();
    for sysctl in at.items() {
        let name = sysctl.child("name");
        if name.needs_text(errors) {
            if !is_sysctl(name.text()) {
                let segment = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?";
                name.invalid(errors, format!("must have at most 253 characters and match regex ^({segment}[\\./])*{segment}$"));
            } else if seen.contains(&name.text()) {
                name.duplicate_text(errors);
            }
        }
        let spelled = name.text().replace('/', ".");
        if spec.child("hostNetwork").is_true() && spelled.starts_with("net.") {
            name.invalid(errors, "may not be specified when 'hostNetwork' is true");
        } else if spec.child("hostIPC").is_true() && is_ipc(&spelled) {
            name.invalid(errors, "may not be specified when 'hostIPC' is true");
        }
        seen.push(name.text());
    }
}

fn is_ipc(name: &str) -> bool {
    ["kernel.shm", "kernel.msg", "fs.mqueue."]
        .iter()
        .any(|prefix| name.starts_with(prefix))
        || name == "kernel.sem"
}

fn seccomp(at: &At<'_, '_>, errors: &mut Errors) {
    if !at.is_set() {
        return;
    }
    let (kind, profile) = (at.child("type"), at.child("localhostProfile"));
    if kind.is_empty() {
        kind.required(errors, "type is required when seccompProfile is set");
    } else {
        kind.one_of(errors, &["Localhost", "RuntimeDefault", "Unconfined"]);
    }
    if kind.text() == "Localhost" {
        if profile.is_set() {
            profile.descending_path(errors);
        } else {
            profile.required(errors, "must be set when seccomp type is Localhost");
        }
    } else if profile.is_set() {
        let shown = at.named(at.value, "localhostProfile");
        shown.invalid_internal(
            errors,
            "core.SeccompProfile",
            "can only be set when seccomp type is Localhost",
        );
    }
}

fn app_armor(at: &At<'_, '_>, errors: &mut Errors) {
    if !at.is_set() {
        return;
    }
    let (kind, profile) = (at.child("type"), at.child("localhostProfile"));
    let missing = "must be set when AppArmor type is Localhost";
    match kind.text() {
        "" => kind.required(errors, "type is required when appArmorProfile is set"),
        "Localhost" if !profile.is_set() => profile.required(errors, missing),
        "Localhost" => {
            if profile.text().trim() != profile.text() {
                profile.invalid(errors, "must not be padded with whitespace");
            } else if profile.is_empty() {
                profile.required(errors, missing);
            }
            if profile.text().len() > 4095 {
                profile.too_long(errors, 4095);
            }
        }
        "RuntimeDefault" | "Unconfined" if profile.is_set() => {
            profile.invalid(errors, "can only be set when AppArmor type is Localhost");
        }
        "RuntimeDefault" | "Unconfined" => {}
        _ => kind.unsupported(errors, &["Localhost", "RuntimeDefault", "Unconfined"]),
    }
}

fn windows(at: &At<'_, '_>, errors: &mut Errors) {
    let user = at.child("runAsUserName");
    if user.is_set() && user.is_empty() {
        user.invalid(errors, "runAsUserName cannot be an empty string");
    }
    let name = at.child("gmsaCredentialSpecName");
    if name.is_set() {
        name.by(super::super::names::dns_subdomain, errors);
    }
    let spec = at.child("gmsaCredentialSpec");
    if spec.is_set() && spec.is_empty() {
        spec.invalid(errors, "gmsaCredentialSpec cannot be an empty string");
    } else if spec.text().len() > 64 * 1024 {
        spec.invalid(errors, "gmsaCredentialSpec size must be under 64 KiB");
    }
}
