// Answers what the Go YAML libraries make of random inputs: one JSON case per line on standard
// input, one JSON answer per line on standard output. The cases come from
// crates/yaml/tests/differential.rs, which compares the answers with ours.
package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/kio"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"
)

type request struct {
	JSON string `json:"json"`
	YAML string `json:"yaml"`
}

func main() {
	input := bufio.NewScanner(os.Stdin)
	input.Buffer(nil, 1<<26)
	output := bufio.NewWriter(os.Stdout)
	defer output.Flush()
	encoder := json.NewEncoder(output)
	for input.Scan() {
		var c request
		check(json.Unmarshal(input.Bytes(), &c))
		check(encoder.Encode(answers(c)))
	}
	check(input.Err())
}

func answers(c request) map[string]string {
	var value any
	check(json.Unmarshal([]byte(c.JSON), &value))
	wide := &kyaml.EncoderOptions{SeqIndent: kyaml.WideSequenceStyle}
	return map[string]string{
		"json":         answer(func() ([]byte, error) { return json.Marshal(value) }),
		"marshal":      answer(func() ([]byte, error) { return yaml.Marshal(value) }),
		"json_to_yaml": answer(func() ([]byte, error) { return yaml.JSONToYAML([]byte(c.JSON)) }),
		"yaml3":        answer(func() ([]byte, error) { return kyaml.Marshal(value) }),
		"yaml3_wide":   answer(func() ([]byte, error) { return kyaml.MarshalWithOptions(value, wide) }),
		"yaml_to_json": answer(func() ([]byte, error) { return yaml.YAMLToJSON([]byte(c.YAML)) }),
		"rnode":        answer(func() ([]byte, error) { return rnode(c.YAML) }),
		"rnode_json":   answer(func() ([]byte, error) { return rnodeJSON(c.YAML) }),
		"kio":          answer(func() ([]byte, error) { return rewrite(c.YAML) }),
	}
}

func rnode(text string) ([]byte, error) {
	node, err := kyaml.Parse(text)
	if err != nil {
		return nil, err
	}
	printed, err := node.String()
	return []byte(printed), err
}

func rnodeJSON(text string) ([]byte, error) {
	node, err := kyaml.Parse(text)
	if err != nil {
		return nil, err
	}
	return node.MarshalJSON()
}

func rewrite(text string) ([]byte, error) {
	reader := kio.ByteReader{Reader: strings.NewReader(text), PreserveSeqIndent: true}
	nodes, err := reader.Read()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = kio.ByteWriter{Writer: &out}.Write(nodes)
	return out.Bytes(), err
}

func answer(work func() ([]byte, error)) (text string) {
	defer func() {
		if cause := recover(); cause != nil {
			text = fmt.Sprint("panic: ", cause)
		}
	}()
	out, err := work()
	if err != nil {
		return "error: " + err.Error()
	}
	return string(out)
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
