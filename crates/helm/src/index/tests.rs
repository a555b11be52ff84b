use std::io::Cursor;

use proptest::prelude::*;

use super::*;

fn rewritten(text: &str) -> Result<String, String> {
    let mut aside = Vec::new();
    let outline = read_index(text.as_bytes(), &mut aside).map_err(|error| error.to_string())?;
    let mut out = Vec::new();
    outline.write(Cursor::new(aside), &mut out).unwrap();
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn an_index_is_printed_as_go_prints_it() {
    let text = "apiVersion: v1\nentries:\n  b: null\n  a:\n  - {name: a, version: 1.0.0, urls: [x]}\n  - null\n  - {name: a, version: nope}\n  - {name: a, version: 2.0.0}\n";
    let expected = r#"{
  "apiVersion": "v1",
  "generated": "0001-01-01T00:00:00Z",
  "entries": {
    "a": [
      {
        "name": "a",
        "version": "2.0.0",
        "apiVersion": "v1",
        "urls": null,
        "created": "0001-01-01T00:00:00Z"
      },
      {
        "name": "a",
        "version": "1.0.0",
        "apiVersion": "v1",
        "urls": [
          "x"
        ],
        "created": "0001-01-01T00:00:00Z"
      }
    ],
    "b": null
  }
}"#;
    assert_eq!(rewritten(text).unwrap(), expected);
    // What is stored reads as itself.
    assert_eq!(rewritten(expected).unwrap(), expected);
}

#[test]
fn garbage_is_named() {
    let error = |text: &str| rewritten(text).unwrap_err();
    assert_eq!(error(""), "empty index.yaml file");
    assert_eq!(error("# nothing\n"), "no API version specified");
    assert!(
        error("<html>x</html>")
            .ends_with("cannot unmarshal string into Go value of type repo.IndexFile")
    );
    assert!(error("a: [\n").starts_with("error converting YAML to JSON: yaml: line 1"));
    assert!(error("apiVersion: v1\nfoo: 1\n").ends_with("json: unknown field \"foo\""));
    let twice = error("apiVersion: v1\nentries: {}\nentries: {}\n");
    assert!(
        twice.contains("line 3: key \"entries\" already set in map"),
        "{twice}"
    );
    let deep = format!("apiVersion: v1\nentries: {{a: {}}}\n", "[".repeat(600));
    assert!(
        error(&deep).contains("nest") || error(&deep).contains("deep"),
        "{}",
        error(&deep)
    );
}

#[test]
fn a_large_index_may_not_need_to_be_held_as_a_whole() {
    let filler = "# filler\n".repeat(SMALL / 9 + 1);
    let error = rewritten(&format!(
        "{filler}apiVersion: v1\nentries: &x {{}}\nannotations: *x\n"
    ));
    assert!(error.unwrap_err().contains("may not use anchors"));
    let error = rewritten(&format!("{filler}apiVersion: v1\napiVersion: v1\n"));
    assert!(error.unwrap_err().contains("already set in map"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn random_text_as_an_index_does_not_panic(text in "[a-z0-9:{}\\[\\]\"' \n,&*!|>.-]{0,200}") {
        let _ = rewritten(&text);
        let _ = rewritten(&format!("apiVersion: v1\nentries:\n  a:\n  - {text}\n"));
    }

    #[test]
    fn random_bytes_as_an_index_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
        let mut aside = Vec::new();
        let _ = read_index(&bytes, &mut aside);
        let _ = find_versions(&bytes[..], "a");
    }
}
