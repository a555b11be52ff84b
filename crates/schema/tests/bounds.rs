//! Long texts against formats.

use everflow_schema::structural::matches_format;

#[test]
fn very_long_book_numbers_are_refused() {
    for format in ["isbn", "isbn10", "isbn13", "creditcard"] {
        assert!(!matches_format(format, &"9".repeat(200_000)), "{format}");
    }
}
