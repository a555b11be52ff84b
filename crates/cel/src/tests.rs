//! Expressions with their answers.

use everflow_json::json;

use super::*;

fn evaluate(text: &str) -> Result<Value, String> {
    let object = json!({
        "metadata": {"name": "web", "generation": 3, "labels": {"app": "web"}},
        "spec": {"replicas": 2, "ports": [80, 443], "image": "nginx:1.25"},
        "status": {"conditions": [
            {"type": "Ready", "status": "True", "observedGeneration": 3},
            {"type": "Stalled", "status": "False"}
        ]}
    });
    let variables = Variables::new().with("self", Value::from_json(&object));
    Program::compile(text)
        .map_err(|error| error.to_string())?
        .evaluate(&variables)
        .map_err(|error| error.to_string())
}

#[track_caller]
fn holds(text: &str) {
    match evaluate(text) {
        Ok(value) => assert!(value.equals(&Value::Bool(true)), "{text} gives {value:?}"),
        Err(error) => panic!("{text} fails: {error}"),
    }
}

#[track_caller]
fn fails(text: &str, want: &str) {
    assert_eq!(evaluate(text).unwrap_err(), want, "{text}");
}

#[test]
fn arithmetic_and_comparison() {
    for text in [
        "1 + 2 * 3 == 7",
        "(1 + 2) * 3 == 9",
        "7 / 2 == 3 && -7 / 2 == -3 && 7 % 2 == 1",
        "1.5 + 1.5 == 3.0",
        "1 == 1.0 && 1u == 1 && 2 > 1.5",
        "'a' < 'b' && 'ab' + 'c' == 'abc'",
        "[1, 2] + [3] == [1, 2, 3]",
        "{'a': 1} == {'a': 1.0}",
        "!(1 > 2) && 3 in [1, 2, 3] && 'a' in {'a': 1}",
        "-9223372036854775808 < 0",
        "0x1F == 31 && 1e3 == 1000.0",
        "b'abc' == bytes('abc')",
        "r'\\d' == '\\\\d' && '\\u0041' == 'A' && '''a'b''' == \"a'b\"",
        "(true ? 1 : 2) == 1",
        "type(1) == int && type('') == string && type([]) == list",
    ] {
        holds(text);
    }
}

#[test]
fn errors_have_cel_words() {
    fails("1 / 0", "division by zero");
    fails("1 % 0", "modulus by zero");
    fails("9223372036854775807 + 1", "integer overflow");
    fails("self.nope", "no such key: nope");
    fails("nope", "no such attribute(s): nope");
    fails("[1][5]", "index out of bounds: 5");
    fails("1 + 'a'", "no such overload");
}

#[test]
fn logical_operators_ignore_errors_that_cannot_change_the_result() {
    holds("true || 1 / 0 == 1");
    holds("1 / 0 == 1 || true");
    holds("!(false && 1 / 0 == 1)");
    holds("!(1 / 0 == 1 && false)");
    holds("[1, 0].exists(x, 1 / x == 1)");
    fails("false || 1 / 0 == 1", "division by zero");
}

#[test]
fn macros_walk_lists_and_maps() {
    for text in [
        "self.spec.ports.all(p, p > 0)",
        "self.spec.ports.exists(p, p == 443) && !self.spec.ports.exists(p, p == 1)",
        "self.spec.ports.exists_one(p, p < 100)",
        "self.spec.ports.map(p, p + 1) == [81, 444]",
        "self.spec.ports.map(p, p > 100, p * 2) == [886]",
        "self.spec.ports.filter(p, p > 100) == [443]",
        "self.metadata.labels.all(k, k == 'app')",
        "self.metadata.labels.all(k, v, k == 'app' && v == 'web')",
        "[10, 20].transformList(i, v, i + v) == [10, 21]",
        "{'a': 1}.transformMap(k, v, v + 1) == {'a': 2}",
        "{'a': 'b'}.transformMapEntry(k, v, {v: k}) == {'b': 'a'}",
        "cel.bind(x, 2, x * x) == 4",
        "has(self.spec.replicas) && !has(self.spec.nope)",
    ] {
        holds(text);
    }
}

#[test]
fn health_expressions_of_flux() {
    holds(
        "self.status.conditions.filter(e, e.type == 'Ready')
             .all(e, e.status == 'True' && e.observedGeneration == self.metadata.generation)",
    );
    holds("self.status.conditions.exists(e, e.type == 'Stalled' && e.status == 'False')");
}

#[test]
fn text_functions() {
    for text in [
        "'hello'.startsWith('he') && 'hello'.endsWith('lo') && 'hello'.contains('ell')",
        "'hello'.matches('^h.*o$') && !'hello'.matches('^x')",
        "'a,b,c'.split(',') == ['a', 'b', 'c'] && 'a,b,c'.split(',', 2) == ['a', 'b,c']",
        "['a', 'b'].join('-') == 'a-b'",
        "'hello'.substring(1, 3) == 'el' && 'hello'.charAt(1) == 'e'",
        "'hello'.indexOf('l') == 2 && 'hello'.lastIndexOf('l') == 3 && 'x'.indexOf('y') == -1",
        "'aXbX'.replace('X', '-') == 'a-b-' && 'aXbX'.replace('X', '-', 1) == 'a-bX'",
        "'ÄB'.lowerAscii() == 'Äb' && ' x '.trim() == 'x'",
        "'%s is %d and %.2f'.format(['a', 1, 1.5]) == 'a is 1 and 1.50'",
        "'abc123'.find('[0-9]+') == '123' && 'a1b2'.findAll('[0-9]') == ['1', '2']",
        "size('äö') == 2 && 'äö'.size() == 2",
        "string(1.5) == '1.5' && int('42') == 42 && double('1.5') == 1.5",
    ] {
        holds(text);
    }
}

#[test]
fn kubernetes_functions() {
    for text in [
        "quantity('1Gi').isGreaterThan(quantity('1000Mi')) && isQuantity('1.3Gi')",
        "quantity('500m').add(quantity('0.5')).compareTo(quantity('1')) == 0",
        "ip('127.0.0.1').isLoopback() && ip('::1').family() == 6 && !isIP('256.1.1.1')",
        "cidr('10.0.0.0/8').containsIP('10.1.2.3') && cidr('10.0.0.0/8').prefixLength() == 8",
        "url('https://example.com:80/a?b=1').getHostname() == 'example.com'",
        "url('https://example.com:80/a?b=1').getPort() == '80'",
        "url('https://example.com/a?b=1').getQuery() == {'b': ['1']}",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && isSemver('1.0.0') && !isSemver('v1')",
        "!format.dns1123Label().validate('ok').hasValue()",
        "format.dns1123Label().validate('Bad_').hasValue()",
        "[1, 2, 3].sum() == 6 && [3, 1].min() == 1 && [1, 2].isSorted()",
        "sets.contains([1, 2], [2]) && sets.equivalent([1, 2], [2, 1, 1])",
        "math.greatest(1, 3, 2) == 3 && math.least([4, 2]) == 2",
    ] {
        holds(text);
    }
}

#[test]
fn optionals() {
    for text in [
        "self.?spec.?nope.orValue('x') == 'x'",
        "self.?spec.?replicas.orValue(0) == 2",
        "optional.of(1).hasValue() && !optional.none().hasValue()",
        "optional.of(2).optMap(v, v * 2).value() == 4",
        "[1, ?optional.none(), 2] == [1, 2]",
        "{?'a': optional.none()} == {}",
        "[1, 2][?5].or(optional.of(9)).value() == 9",
    ] {
        holds(text);
    }
}

#[test]
fn times() {
    for text in [
        "timestamp('2024-01-02T03:04:05Z').getFullYear() == 2024",
        "timestamp('2024-01-02T03:04:05Z').getMonth() == 0",
        "timestamp('2024-01-02T03:04:05Z') + duration('1h') == timestamp('2024-01-02T04:04:05Z')",
        "duration('90m').getHours() == 1 && duration('1h') < duration('61m')",
        "timestamp('2024-01-01T00:00:00Z').getDayOfWeek() == 1",
    ] {
        holds(text);
    }
}

#[test]
fn syntax_errors_point_at_their_place() {
    let primary = "{'[', '{', '(', '.', '-', '!', 'true', 'false', 'null', NUM_FLOAT, NUM_INT, \
                   NUM_UINT, STRING, BYTES, IDENTIFIER}";
    fails(
        "self.a ==",
        &format!(
            "ERROR: <input>:1:10: Syntax error: mismatched input '<EOF>' expecting {primary}\n | \
             self.a ==\n | .........^"
        ),
    );
    fails(
        "x ++",
        &format!(
            "ERROR: <input>:1:4: Syntax error: mismatched input '+' expecting {primary}\n | x ++\n \
             | ...^\nERROR: <input>:1:5: Syntax error: mismatched input '<EOF>' expecting \
             {primary}\n | x ++\n | ....^"
        ),
    );
}

#[test]
fn hostile_expressions_end() {
    let deep = format!("{}1{}", "(".repeat(5000), ")".repeat(5000));
    assert!(Program::compile(&deep).is_err());
    let wide = "[0,1,2,3,4,5,6,7,8,9]";
    let nested = format!(
        "{wide}.all(a, {wide}.all(b, {wide}.all(c, {wide}.all(d, {wide}.all(e, {wide}.all(f, \
         {wide}.all(g, true)))))))"
    );
    assert_eq!(
        evaluate(&nested).unwrap_err(),
        "operation cancelled: actual cost limit exceeded"
    );
}
