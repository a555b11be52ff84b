// Measures the Go libraries on the files that our own benchmark generates.
//
//	yaml-go MODE FILE
//
// prints the mode, the megabytes of YAML per second of processor time (all threads, so the garbage
// collector counts) and the peak of memory in megabytes.
package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"

	yaml3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime"
	k8syaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/kustomize/kyaml/kio"
	kyaml "sigs.k8s.io/kustomize/kyaml/yaml"
	"sigs.k8s.io/yaml"
)

const rounds = 5

func main() {
	if len(os.Args) != 3 {
		fmt.Println("usage: yaml-go MODE FILE")
		os.Exit(2)
	}
	mode, file := os.Args[1], os.Args[2]
	input, err := os.ReadFile(file)
	check(err)
	switch mode {
	case "load-sigs":
		measure(mode, input, func() { _ = decodeSigs(input) })
	case "load-v3":
		measure(mode, input, func() {
			var value any
			check(yaml3.Unmarshal(input, &value))
		})
	case "load-kyaml":
		measure(mode, input, func() {
			_, err := kyaml.Parse(string(input))
			check(err)
		})
	case "load-decoder":
		measure(mode, input, func() { _ = decodeAll(input) })
	case "load-kio":
		measure(mode, input, func() {
			_, err := kio.FromBytes(input)
			check(err)
		})
	case "dump-sigs":
		json := decodeSigs(input)
		measure(mode, input, func() {
			_, err := yaml.JSONToYAML(json)
			check(err)
		})
	case "marshal-sigs":
		var value any
		check(yaml.Unmarshal(input, &value))
		measure(mode, input, func() {
			_, err := yaml.Marshal(value)
			check(err)
		})
	case "dump-v3":
		var value any
		check(yaml3.Unmarshal(input, &value))
		measure(mode, input, func() {
			_, err := kyaml.Marshal(value)
			check(err)
		})
	case "dump-kyaml":
		node, err := kyaml.Parse(string(input))
		check(err)
		measure(mode, input, func() {
			_, err := node.String()
			check(err)
		})
	case "dump-sigs-each":
		documents := decodeAll(input)
		measure(mode, input, func() {
			for _, document := range documents {
				_, err := yaml.JSONToYAML(document)
				check(err)
			}
		})
	case "dump-kio":
		nodes, err := kio.FromBytes(input)
		check(err)
		measure(mode, input, func() {
			_, err := kio.StringAll(nodes)
			check(err)
		})
	default:
		fmt.Println("unknown mode", mode)
		os.Exit(2)
	}
}

func decodeSigs(input []byte) []byte {
	json, err := yaml.YAMLToJSON(input)
	check(err)
	return json
}

func decodeAll(input []byte) [][]byte {
	var documents [][]byte
	decoder := k8syaml.NewYAMLOrJSONDecoder(bytes.NewReader(input), 4096)
	for {
		var raw runtime.RawExtension
		err := decoder.Decode(&raw)
		if err == io.EOF {
			return documents
		}
		check(err)
		documents = append(documents, raw.Raw)
	}
}

func measure(mode string, input []byte, work func()) {
	best := 1e9
	for range rounds {
		start := processorSeconds()
		work()
		best = min(best, processorSeconds()-start)
	}
	fmt.Printf("%s %.1f %.0f\n", mode, float64(len(input))/1e6/best, peakMegabytes())
}

func processorSeconds() float64 {
	var usage syscall.Rusage
	check(syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	seconds := func(t syscall.Timeval) float64 { return float64(t.Sec) + float64(t.Usec)/1e6 }
	return seconds(usage.Utime) + seconds(usage.Stime)
}

func peakMegabytes() float64 {
	status, err := os.ReadFile("/proc/self/status")
	check(err)
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmHWM:" {
			kilobytes, err := strconv.ParseFloat(fields[1], 64)
			check(err)
			return kilobytes / 1024
		}
	}
	return 0
}

func check(err error) {
	if err != nil {
		panic(err)
	}
}
