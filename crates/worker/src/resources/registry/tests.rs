use protocol::session::codec::OpenObject;
use serde_json::value::RawValue;
use tempfile::TempDir;

use super::*;

#[test]
fn what_is_registered_survives_a_restart() {
    let data = tempfile::tempdir().expect("folder");
    let registry = open(&data);
    let kept = file(&registry, "kept", "seven b");
    let lost = file(&registry, "lost", "x");
    let grown = file(&registry, "grown", "x");
    assert_eq!(registry.totals(), Totals { count: 3, disk_bytes: 9, in_use: 0 });
    drop(registry);
    fs::remove_file(path(&lost)).expect("removed");
    fs::write(path(&grown), "larger").expect("written");
    let left_over = path(&kept).with_file_name("left-over");
    fs::write(&left_over, "of a crash").expect("written");
    let registry = open(&data);
    assert_eq!(registry.list(), std::slice::from_ref(&kept), "the rest is not what it was");
    assert_eq!(registry.totals(), Totals { count: 1, disk_bytes: 7, in_use: 0 });
    assert!(!left_over.exists() && !path(&grown).exists() && path(&kept).exists());
    assert_eq!(open(&data).list(), [kept]);
}

#[test]
fn a_file_goes_with_its_resource_and_one_of_elsewhere_stays() {
    let data = tempfile::tempdir().expect("folder");
    let registry = Arc::new(open(&data));
    let own = file(&registry, "own", "mine");
    let elsewhere = data.path().join("elsewhere");
    fs::write(&elsewhere, "theirs").expect("written");
    let other = registry.register_file(new("other"), &elsewhere).expect("registered");
    let lent = registry.lease("own").expect("there");
    assert_eq!(fs::read_to_string(&lent.resource().path).expect("read"), "mine");
    assert_eq!(registry.totals().in_use, 1);
    registry.release_scope("s");
    assert!(path(&own).exists(), "someone works with it");
    assert!(registry.lease("own").is_none() && !has(&registry, "own"));
    drop(lent);
    assert_eq!(registry.totals().in_use, 0);
    assert!(!path(&own).exists() && elsewhere.exists(), "{other:?}");
    assert!(open(&data).list().is_empty(), "the index knows");
}

#[test]
fn what_is_over_its_time_or_too_much_goes() {
    let data = tempfile::tempdir().expect("folder");
    let limits = Limits { disk_bytes_max: 10, ..Limits::default() };
    let registry = Registry::open(data.path(), "w", limits).expect("opens");
    let short = NewResource { ttl: Some(Duration::ZERO), ..new("short") };
    let file = registry.new_path();
    fs::write(&file, "x").expect("written");
    registry.register_file(short, &file).expect("registered");
    registry.gc();
    assert!(!has(&registry, "short") && !file.exists());
    let first = self::file(&registry, "first", "123456");
    let second = self::file(&registry, "second", "123456");
    assert!(!has(&registry, "first") && !path(&first).exists(), "it made room");
    let large = registry.new_path();
    fs::write(&large, "12345678901").expect("written");
    let refused = registry.register_file(new("large"), &large).expect_err("too large");
    assert!(matches!(refused, RegistryError::ResourceTable(KeepError::Full { bytes: 11, .. })));
    assert!(path(&second).exists(), "what cannot fit costs nothing");
}

#[test]
fn a_file_that_is_not_what_it_was_is_not_lent() {
    let data = tempfile::tempdir().expect("folder");
    let registry = Arc::new(open(&data));
    let one = file(&registry, "one", "x");
    fs::write(path(&one), "other").expect("written");
    assert!(registry.lease("one").is_none());
    assert!(registry.lease("never").is_none());
    registry.release_scope("s");
    assert_eq!(registry.totals().count, 0, "nobody holds it");
}

#[test]
fn names_are_names_and_a_damaged_index_is_laid_aside() {
    let data = tempfile::tempdir().expect("folder");
    let registry = open(&data);
    let path = registry.new_path();
    fs::write(&path, "x").expect("written");
    for id in ["", "a\nb", &"x".repeat(257)] {
        let refused = registry.register_file(new(id), &path);
        assert!(matches!(refused, Err(RegistryError::Name(_))), "{id:?}");
    }
    registry.register_file(new("a"), &path).expect("registered");
    let again = registry.register_file(new("a"), &path);
    assert!(matches!(again, Err(RegistryError::ResourceTable(KeepError::Taken(_)))));
    drop(registry);
    fs::write(data.path().join(INDEX), "{").expect("written");
    assert!(open(&data).list().is_empty());
    assert!(data.path().join("resources.damaged").exists());
}

#[test]
fn an_artifact_says_whose_and_how_large() {
    let data = tempfile::tempdir().expect("folder");
    let registry = open(&data);
    let metadata = OpenObject::new(RawValue::from_string(r#"{"a":1}"#.into()).expect("JSON"));
    let path = registry.new_path();
    fs::write(&path, "seven b").expect("written");
    let one = registry.register_file(NewResource { metadata, ..new("a") }, &path);
    let one = one.expect("registered");
    let artifact = one.artifact(registry.worker_name(), false);
    assert_eq!((artifact.worker_name.as_str(), artifact.size_bytes), ("w", Some(7)));
    assert_eq!(artifact.metadata.expect("told").get(), r#"{"a":1}"#);
    assert_eq!(artifact.expires_at, Some(one.expires_at.to_string()));
}

fn open(data: &TempDir) -> Registry {
    Registry::open(data.path(), "w", Limits::default()).expect("opens")
}

fn has(registry: &Registry, id: &str) -> bool {
    registry.list().iter().any(|one| one.id == id)
}

fn new(id: &str) -> NewResource {
    NewResource {
        id: Some(id.into()),
        resource_type: "file".into(),
        scope: Some("s".into()),
        metadata: None,
        ttl: None,
    }
}

fn file(registry: &Registry, id: &str, text: &str) -> Resource {
    let path = registry.new_path();
    fs::write(&path, text).expect("written");
    registry.register_file(new(id), &path).expect("registered")
}

fn path(resource: &Resource) -> &Path {
    owned_path(resource).expect("a file of its own")
}
