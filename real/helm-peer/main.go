// Renders charts held in memory with the real helm's engine: one JSON case per line on standard
// input, one JSON answer per line on standard output. The other side is
// crates/helm/tests/differential_templates.
package main

import (
	"bufio"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	chart "helm.sh/helm/v4/pkg/chart/v2"
	"helm.sh/helm/v4/pkg/engine"
)

type request struct {
	Templates map[string]string `json:"templates"`
	Values    map[string]any    `json:"values"`
}

type answer struct {
	Out   string `json:"out"`
	Err   string `json:"err,omitempty"`
	Panic string `json:"panic,omitempty"`
}

func render(r request) (a answer) {
	defer func() {
		if p := recover(); p != nil {
			a = answer{Panic: fmt.Sprint(p)}
		}
	}()
	c := &chart.Chart{Metadata: &chart.Metadata{
		APIVersion: "v2", Name: "t", Version: "1.2.3", AppVersion: "4.5.6", Description: "random", Type: "application",
	}}
	for name, text := range r.Templates {
		c.Templates = append(c.Templates, &common.File{Name: "templates/" + name, Data: []byte(text)})
	}
	release := common.ReleaseOptions{Name: "rel", Namespace: "ns", Revision: 1, IsInstall: true}
	values, err := util.ToRenderValues(c, r.Values, release, common.DefaultCapabilities)
	if err != nil {
		return answer{Err: err.Error()}
	}
	files, err := engine.Engine{}.Render(c, values)
	if err != nil {
		return answer{Err: hex.EncodeToString([]byte(err.Error()))}
	}
	return answer{Out: hex.EncodeToString([]byte(files["t/templates/case.yaml"]))}
}

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(io.Discard, nil)))
	out := bufio.NewWriterSize(os.Stdout, 1<<20)
	defer out.Flush()
	decoder := json.NewDecoder(bufio.NewReaderSize(os.Stdin, 1<<20))
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
