package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"math/rand"
	"strconv"
)

// Writes the expectations of crates/gotemplate/tests/data/fmt.jsonl: formats, values and what the
// real fmt makes of them; then floats by strconv.
func writeFormatData(out io.Writer) {
	random := rand.New(rand.NewSource(26))
	pick := func(list []string) string { return list[random.Intn(len(list))] }
	s := func(text string) string { return hex.EncodeToString([]byte(text)) }
	str := func(text string) spec { return spec{Kind: "string", Value: s(text)} }
	values := []spec{
		{Kind: "nil"}, {Kind: "bool", Value: "true"}, {Kind: "bool", Value: "false"},
		{Kind: "int", Value: "0"}, {Kind: "int", Value: "42"}, {Kind: "int", Value: "-42"}, {Kind: "int", Value: "128512"},
		{Kind: "int64", Value: "-9223372036854775808"}, {Kind: "int8", Value: "-128"}, {Kind: "int32", Value: "8364"},
		{Kind: "uint8", Value: "200"}, {Kind: "uint64", Value: "18446744073709551615"}, {Kind: "uint", Value: "7"},
		{Kind: "float64", Value: "0"}, {Kind: "float64", Value: "-0"}, {Kind: "float64", Value: "1"}, {Kind: "float64", Value: "2.5"},
		{Kind: "float64", Value: "1000000"}, {Kind: "float64", Value: "123456.789"}, {Kind: "float64", Value: "1e21"},
		{Kind: "float64", Value: "1e-7"}, {Kind: "float64", Value: "NaN"}, {Kind: "float64", Value: "+Inf"}, {Kind: "float64", Value: "-Inf"},
		{Kind: "float32", Value: "0.1"}, {Kind: "float32", Value: "16777216"}, {Kind: "float32", Value: "3.4e38"},
		str(""), str("hello"), str("héllo 世界"), str("a\tb\"c'`\n"), str("\xff\xfex"), str("`tick`"), str("\u200b\ufeff\x7f"),
		{Kind: "bytes", Value: s("ab\x00\xff")}, {Kind: "bytes", Value: ""},
		{Kind: "list", Items: []spec{{Kind: "int", Value: "1"}, str("a"), {Kind: "nil"}, {Kind: "float64", Value: "1.5"}}},
		{Kind: "list"}, {Kind: "nillist"}, {Kind: "nilmap"},
		{Kind: "list", Items: []spec{{Kind: "list", Items: []spec{str("x"), {Kind: "bytes", Value: s("hi")}}}}},
		{Kind: "strings", Items: []spec{str("a b"), str("c")}}, {Kind: "ints", Items: []spec{{Value: "1"}, {Value: "-2"}}},
		{Kind: "map", Map: map[string]spec{s("b"): {Kind: "int", Value: "1"}, s("a"): {Kind: "nil"}, s("c"): {Kind: "map", Map: map[string]spec{s("d"): str("e")}}}},
		{Kind: "stringmap", Map: map[string]spec{s("k"): str("v w")}},
	}
	encoder := json.NewEncoder(out)
	write := func(format string, args ...spec) {
		built := []any{}
		for _, arg := range args {
			built = append(built, build(arg))
		}
		encoder.Encode([]any{s(format), args, s(fmt.Sprintf(format, built...))})
	}
	verbs := []string{"v", "T", "t", "b", "c", "d", "o", "O", "q", "x", "X", "U", "e", "E", "f", "F", "g", "G", "s", "w", "z", "é", "!"}
	for _, value := range values {
		for _, verb := range verbs {
			write("%"+verb, value)
			write("%"+pick([]string{"#", "+", "-", " ", "0"})+pick([]string{"", "3", "8", "08", "-9", "20"})+pick([]string{"", ".", ".0", ".3", ".12"})+verb, value)
		}
		write("%#v %+v", value, value)
		write("%[2]v %[1]v %d", value, value)
		write("%*d|%-*d|%.*f", spec{Kind: "int", Value: "6"}, value, spec{Kind: "int", Value: "4"}, value, spec{Kind: "int", Value: "2"}, value)
	}
	for _, format := range []string{"", "%", "%%", "%5%", "plain", "%d %d", "%!", "%[3]d", "%[x]d", "%[1]", "%[", "%.", "%.*d", "%*d", "%-", "%99999999d|", "%[1]*d", "%[2]*[1]d", "%.[2]*[1]f", "%[1].2f", "%[5]*d"} {
		write(format)
		write(format, values[4])
		write(format, values[4], values[5])
		write(format, values[28], values[15], values[0])
	}
	floats := []float64{0, 1, -1, 0.1, 0.5, 1.5, 2.5, 0.25, 0.35, 1e21, 1e20, 123456789, 1e6, 1e-5, 1e-4, 5e-324, math.MaxFloat64, 1.0 / 3, 100, 99.995, 1e23, 9007199254740993, math.Pi, 4.35, 0.000123456, 8.41e21, 2.2250738585072014e-308}
	for i := 0; i < 90; i++ {
		floats = append(floats, math.Float64frombits(random.Uint64()))
	}
	for _, value := range floats {
		if math.IsNaN(value) || math.IsInf(value, 0) {
			continue
		}
		for _, form := range "eEfgGbxX" {
			for _, precision := range []int{-1, random.Intn(20)} {
				if form == 'f' && math.Abs(value) > 1e60 && precision > 3 {
					continue
				}
				bits := 64
				if random.Intn(5) == 0 {
					bits = 32
				}
				given := value
				if bits == 32 {
					given = float64(float32(value))
					if math.IsInf(given, 0) {
						continue
					}
				}
				text := strconv.FormatFloat(given, byte(form), precision, bits)
				encoder.Encode([]any{"float", strconv.FormatUint(math.Float64bits(given), 10), string(form), precision, bits, text})
			}
		}
	}
}
