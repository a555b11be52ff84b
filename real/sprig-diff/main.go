// Renders templates with the real sprig and Helm's data functions: one JSON case per line on
// standard input, one JSON answer per line on standard output. The Rust side, which makes up the
// cases, is crates/sprig/tests/differential.
package main

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"text/template"

	"github.com/BurntSushi/toml"
	"github.com/Masterminds/sprig/v3"
	"sigs.k8s.io/yaml"
	yamlv3 "sigs.k8s.io/yaml/goyaml.v3"
)

type request struct {
	Template string `json:"template"`
	Data     any    `json:"data"`
}

type answer struct {
	Out string `json:"out"`
	Err string `json:"err,omitempty"`
}

func into[T any](target *T, err error, note func(string)) T {
	if err != nil {
		note(err.Error())
	}
	return *target
}

func functions() template.FuncMap {
	table := sprig.TxtFuncMap()
	table["toYaml"] = func(v any) string {
		text, err := yaml.Marshal(v)
		if err != nil {
			return ""
		}
		return strings.TrimSuffix(string(text), "\n")
	}
	table["toYamlPretty"] = func(v any) string {
		var out bytes.Buffer
		encoder := yamlv3.NewEncoder(&out)
		encoder.SetIndent(2)
		if encoder.Encode(v) != nil {
			return ""
		}
		return strings.TrimSuffix(out.String(), "\n")
	}
	table["fromYaml"] = func(text string) map[string]any {
		m := map[string]any{}
		err := yaml.Unmarshal([]byte(text), &m)
		return into(&m, err, func(note string) { m["Error"] = note })
	}
	table["fromYamlArray"] = func(text string) []any {
		a := []any{}
		err := yaml.Unmarshal([]byte(text), &a)
		return into(&a, err, func(note string) { a = []any{note} })
	}
	table["toToml"] = func(v any) string {
		var out bytes.Buffer
		if err := toml.NewEncoder(&out).Encode(v); err != nil {
			return err.Error()
		}
		return out.String()
	}
	table["fromToml"] = func(text string) map[string]any {
		m := map[string]any{}
		err := toml.Unmarshal([]byte(text), &m)
		return into(&m, err, func(note string) { m["Error"] = note })
	}
	table["toJson"] = func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			return ""
		}
		return string(text)
	}
	table["fromJson"] = func(text string) map[string]any {
		m := map[string]any{}
		err := json.Unmarshal([]byte(text), &m)
		return into(&m, err, func(note string) { m["Error"] = note })
	}
	table["fromJsonArray"] = func(text string) []any {
		a := []any{}
		err := json.Unmarshal([]byte(text), &a)
		return into(&a, err, func(note string) { a = []any{note} })
	}
	return table
}

func render(table template.FuncMap, text string, data any) (result answer) {
	defer func() {
		if r := recover(); r != nil {
			result.Err = fmt.Sprintf("panic: %v", r)
		}
	}()
	parsed, err := template.New("t").Option("missingkey=zero").Funcs(table).Parse(text)
	if err != nil {
		return answer{Err: err.Error()}
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, data); err != nil {
		return answer{Err: err.Error()}
	}
	return answer{Out: hex.EncodeToString(out.Bytes())}
}

func main() {
	table := functions()
	in := bufio.NewScanner(os.Stdin)
	in.Buffer(nil, 64<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	encoder := json.NewEncoder(out)
	for in.Scan() {
		var r request
		if err := json.Unmarshal(in.Bytes(), &r); err != nil {
			panic(err)
		}
		if err := encoder.Encode(render(table, r.Template, r.Data)); err != nil {
			panic(err)
		}
	}
}
