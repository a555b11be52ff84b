// Renders templates with the real text/template: one JSON case per line on standard input, one
// JSON answer per line on standard output. With the argument fmt it writes the expectations of
// crates/gotemplate/tests/data/fmt.jsonl instead. The Rust side is crates/gotemplate/tests/differential.rs,
// which generates the cases and has the same data types and functions.
package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/template"
)

type spec struct {
	Kind  string          `json:"k,omitempty"`
	Value string          `json:"v,omitempty"`
	Items []spec          `json:"i,omitempty"`
	Map   map[string]spec `json:"m,omitempty"`
}

type request struct {
	Templates [][2]string `json:"templates"`
	Missing   string      `json:"missing"`
	Left      string      `json:"left"`
	Right     string      `json:"right"`
	Data      spec        `json:"data"`
}

type answer struct {
	Out   string `json:"out"`
	Err   string `json:"err,omitempty"`
	Panic string `json:"panic,omitempty"`
}

// Point is a struct with fields of several kinds and methods of both receivers.
type Point struct {
	X      int
	Y      string
	Any    any
	Tags   map[string]string
	hidden int
}

func (p Point) Sum(first int, rest ...int) int {
	total := p.X + first
	for _, n := range rest {
		total += n
	}
	return total
}

func (p Point) Fail(text string) (string, error) { return "", errors.New("failed: " + text) }

func (p *Point) Name() string { return "point " + p.Y }

// Temperature is a named number that prints itself.
type Temperature float64

func (t Temperature) String() string { return strconv.Itoa(int(t)) + " degrees" }

// Level is a named number without methods.
type Level int

// Labels is a named map with a method.
type Labels map[string]any

func (l Labels) Find(key string) any { return l[key] }

// Version prints itself by its pointer only.
type Version struct {
	Major int
	Minor string
}

func (v *Version) String() string { return fmt.Sprintf("v%d.%s", v.Major, v.Minor) }

// Release is what holds a version.
type Release struct {
	Version Version
	Next    *Version
}

var functions = template.FuncMap{
	"addInts": func(a, b int) int { return a + b },
	"joinAll": func(separator string, parts ...string) string { return strings.Join(parts, separator) },
	"same":    func(x any) any { return x },
	"typeof":  func(x any) string { return fmt.Sprintf("%T", x) },
	"fails":   func(text string) (string, error) { return "", errors.New(text) },
	"sizeMap": func(m map[string]any) int { return len(m) },
	"sizeAll": func(l []any) int { return len(l) },
	"strs":    func(l []string) int { return len(l) },
	"zero":    func() int { return 0 },
	"nothing": func() any { return nil },
	"half":    func(f float64) float64 { return f / 2 },
	"single":  func(f float32) float32 { return f },
	"octet":   func(n uint8) uint8 { return n },
	"wide":    func(n int64) int64 { return n },
	"huge":    func(n uint64) uint64 { return n },
	"tiny":    func(n int8) int8 { return n },
	"flip":    func(b bool) bool { return !b },
	"upper":   func(s string) string { return strings.ToUpper(s) },
	"list":    func(items ...any) []any { return items },
	"dict": func(items ...any) (map[string]any, error) {
		if len(items)%2 != 0 {
			return nil, errors.New("odd number of arguments")
		}
		m := map[string]any{}
		for i := 0; i < len(items); i += 2 {
			m[fmt.Sprint(items[i])] = items[i+1]
		}
		return m, nil
	},
	"put": func(m map[string]any, key string, value any) map[string]any { m[key] = value; return m },
}

func number[T any](text string, parse func(string) (T, error)) T {
	n, err := parse(text)
	if err != nil {
		panic(err)
	}
	return n
}

func text(encoded string) string {
	raw, err := hex.DecodeString(encoded)
	if err != nil {
		panic(err)
	}
	return string(raw)
}

func signed(s string) int64 {
	return number(s, func(s string) (int64, error) { return strconv.ParseInt(s, 10, 64) })
}
func unsigned(s string) uint64 {
	return number(s, func(s string) (uint64, error) { return strconv.ParseUint(s, 10, 64) })
}
func float(s string) float64 {
	return number(s, func(s string) (float64, error) { return strconv.ParseFloat(s, 64) })
}

func anyMap(s spec) map[string]any {
	m := map[string]any{}
	for key, value := range s.Map {
		m[text(key)] = build(value)
	}
	return m
}

func stringMap(s spec) map[string]string {
	m := map[string]string{}
	for key, value := range s.Map {
		m[text(key)] = text(value.Value)
	}
	return m
}

func point(s spec) Point {
	return Point{X: int(signed(s.Value)), Y: text(s.Items[0].Value), Any: build(s.Items[1]), Tags: stringMap(s.Items[2]), hidden: 7}
}

func build(s spec) any {
	switch s.Kind {
	case "nil":
		return nil
	case "bool":
		return s.Value == "true"
	case "int":
		return int(signed(s.Value))
	case "int8":
		return int8(signed(s.Value))
	case "int16":
		return int16(signed(s.Value))
	case "int32":
		return int32(signed(s.Value))
	case "int64":
		return signed(s.Value)
	case "uint":
		return uint(unsigned(s.Value))
	case "uint8":
		return uint8(unsigned(s.Value))
	case "uint64":
		return unsigned(s.Value)
	case "float32":
		return float32(float(s.Value))
	case "float64":
		return float(s.Value)
	case "string":
		return text(s.Value)
	case "bytes":
		return []byte(text(s.Value))
	case "list":
		l := []any{}
		for _, item := range s.Items {
			l = append(l, build(item))
		}
		// Without spare room behind the items.
		return l[:len(l):len(l)]
	case "strings":
		l := make([]string, len(s.Items))
		for i, item := range s.Items {
			l[i] = text(item.Value)
		}
		return l
	case "ints":
		l := make([]int, len(s.Items))
		for i, item := range s.Items {
			l[i] = int(signed(item.Value))
		}
		return l
	case "nillist":
		return []any(nil)
	case "nilmap":
		return map[string]any(nil)
	case "map":
		return anyMap(s)
	case "stringmap":
		return stringMap(s)
	case "labels":
		return Labels(anyMap(s))
	case "point":
		return point(s)
	case "pointer":
		p := point(s)
		return &p
	case "nilpointer":
		return (*Point)(nil)
	case "temperature":
		return Temperature(float(s.Value))
	case "level":
		return Level(signed(s.Value))
	case "release":
		return &Release{Version: Version{int(signed(s.Value)), "x"}, Next: &Version{int(signed(s.Value)) + 1, "y"}}
	case "func":
		return func(n int, rest ...string) (string, error) {
			if n < 0 {
				return "", errors.New("negative")
			}
			return strconv.Itoa(n) + strings.Join(rest, "+"), nil
		}
	}
	panic("unknown kind " + s.Kind)
}

func render(r request) (a answer) {
	defer func() {
		if p := recover(); p != nil {
			a = answer{Panic: fmt.Sprint(p)}
		}
	}()
	set := template.New("set").Funcs(functions).Option("missingkey=" + r.Missing)
	set.Delims(r.Left, r.Right)
	for _, t := range r.Templates {
		if _, err := set.New(t[0]).Parse(text(t[1])); err != nil {
			return answer{Err: hex.EncodeToString([]byte(err.Error()))}
		}
	}
	var out bytes.Buffer
	if err := set.ExecuteTemplate(&out, "main", build(r.Data)); err != nil {
		return answer{Err: hex.EncodeToString([]byte(err.Error()))}
	}
	return answer{Out: hex.EncodeToString(out.Bytes())}
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == "fmt" {
		writeFormatData(os.Stdout)
		return
	}
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	defer out.Flush()
	decoder := json.NewDecoder(in)
	encoder := json.NewEncoder(out)
	for decoder.More() {
		var r request
		if err := decoder.Decode(&r); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if err := encoder.Encode(render(r)); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
}
