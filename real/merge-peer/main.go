// The real merge code of Kubernetes as a filter: one JSON request a line in, one JSON answer a line
// out. It exists to compare everflow-merge with; see ../merge-peer.sh.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/jsonmergepatch"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/client-go/applyconfigurations"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

type request struct {
	Op         string                  `json:"op"`
	APIVersion string                  `json:"apiVersion"`
	Kind       string                  `json:"kind"`
	Schemas    map[string]*spec.Schema `json:"schemas"`
	Live       json.RawMessage         `json:"live"`
	New        json.RawMessage         `json:"new"`
	Third      json.RawMessage         `json:"third"`
	Manager    string                  `json:"manager"`
	Force      bool                    `json:"force"`
}

type answer struct {
	Object json.RawMessage `json:"object,omitempty"`
	Error  string          `json:"error,omitempty"`
	Causes []string        `json:"causes,omitempty"`
}

// Custom resources are trees that are not converted, and have no defaults.
type trees struct{ kind schema.GroupVersionKind }

func (t trees) Default(runtime.Object) {}
func (t trees) New(schema.GroupVersionKind) (runtime.Object, error) {
	u := &unstructured.Unstructured{Object: map[string]interface{}{}}
	u.SetGroupVersionKind(t.kind)
	return u, nil
}
func (t trees) Convert(in, out, context interface{}) error { return fmt.Errorf("not supported") }
func (t trees) ConvertToVersion(in runtime.Object, gv runtime.GroupVersioner) (runtime.Object, error) {
	wanted, ok := gv.(schema.GroupVersion)
	u, isTree := in.(*unstructured.Unstructured)
	if !ok || !isTree {
		return in, nil
	}
	if u.GroupVersionKind().GroupVersion() == wanted {
		return u, nil
	}
	return nil, runtime.NewNotRegisteredErrForKind("trees", wanted.WithKind(t.kind.Kind))
}
func (t trees) ConvertFieldLabel(gvk schema.GroupVersionKind, label, value string) (string, string, error) {
	return "", "", fmt.Errorf("not supported")
}

type nothing struct{}

func (nothing) Default(runtime.Object) {}

func managerFor(r request) (*managedfields.FieldManager, runtime.ObjectCreater, error) {
	kind := schema.FromAPIVersionAndKind(r.APIVersion, r.Kind)
	none := map[fieldpath.APIVersion]fieldpath.Filter{}
	if r.Schemas != nil {
		types, err := managedfields.NewTypeConverter(r.Schemas, false)
		if err != nil {
			return nil, nil, err
		}
		t := trees{kind}
		fm, err := managedfields.NewDefaultCRDFieldManager(types, t, t, t, kind, kind.GroupVersion(), "", none)
		return fm, t, err
	}
	types := applyconfigurations.NewTypeConverter(scheme.Scheme)
	fm, err := managedfields.NewDefaultFieldManager(types, scheme.Scheme, nothing{}, scheme.Scheme, kind, kind.GroupVersion(), "", none)
	return fm, scheme.Scheme, err
}

func tree(raw json.RawMessage) (*unstructured.Unstructured, error) {
	u := &unstructured.Unstructured{Object: map[string]interface{}{}}
	err := kjson.Unmarshal(raw, &u.Object)
	return u, err
}

// object reads an object as the server holds it: a struct for built-in kinds.
func object(r request, raw json.RawMessage, creater runtime.ObjectCreater) (runtime.Object, error) {
	u, err := tree(raw)
	if err != nil || r.Schemas != nil {
		return u, err
	}
	typed, err := creater.New(schema.FromAPIVersionAndKind(r.APIVersion, r.Kind))
	if err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, typed); err != nil {
		return nil, err
	}
	return typed, nil
}

func run(r request) (interface{}, error) {
	switch r.Op {
	case "json-patch":
		patch, err := jsonpatch.DecodePatch(r.New)
		if err != nil {
			return nil, err
		}
		out, err := patch.Apply(r.Live)
		return json.RawMessage(out), err
	case "merge-patch":
		out, err := jsonpatch.MergePatch(r.Live, r.New)
		return json.RawMessage(out), err
	case "merge-create":
		out, err := jsonpatch.CreateMergePatch(r.Live, r.New)
		return json.RawMessage(out), err
	case "merge-three-way":
		out, err := jsonmergepatch.CreateThreeWayJSONMergePatch(r.Live, r.New, r.Third)
		return json.RawMessage(out), err
	case "strategic", "strategic-create", "strategic-three-way":
		return strategic(r)
	case "apply", "update":
		return manage(r)
	}
	return nil, fmt.Errorf("unknown op %q", r.Op)
}

func strategic(r request) (interface{}, error) {
	reference, err := scheme.Scheme.New(schema.FromAPIVersionAndKind(r.APIVersion, r.Kind))
	if err != nil {
		return nil, err
	}
	live, fresh := map[string]interface{}{}, map[string]interface{}{}
	if err := kjson.Unmarshal(r.Live, &live); err != nil {
		return nil, err
	}
	if err := kjson.Unmarshal(r.New, &fresh); err != nil {
		return nil, err
	}
	switch r.Op {
	case "strategic":
		return strategicpatch.StrategicMergeMapPatch(live, fresh, reference)
	case "strategic-create":
		return strategicpatch.CreateTwoWayMergeMapPatch(live, fresh, reference)
	}
	meta, err := strategicpatch.NewPatchMetaFromStruct(reference)
	if err != nil {
		return nil, err
	}
	out, err := strategicpatch.CreateThreeWayMergePatch(r.Live, r.New, r.Third, meta, true)
	return json.RawMessage(out), err
}

func manage(r request) (interface{}, error) {
	fm, creater, err := managerFor(r)
	if err != nil {
		return nil, err
	}
	var live runtime.Object
	if len(r.Live) == 0 || string(r.Live) == "null" {
		live, err = creater.New(schema.FromAPIVersionAndKind(r.APIVersion, r.Kind))
	} else {
		live, err = object(r, r.Live, creater)
	}
	if err != nil {
		return nil, err
	}
	live.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(r.APIVersion, r.Kind))
	if r.Op == "apply" {
		applied, err := tree(r.New)
		if err != nil {
			return nil, err
		}
		return fm.Apply(live, applied, r.Manager, r.Force)
	}
	fresh, err := object(r, r.New, creater)
	if err != nil {
		return nil, err
	}
	fresh.GetObjectKind().SetGroupVersionKind(schema.FromAPIVersionAndKind(r.APIVersion, r.Kind))
	return fm.UpdateNoErrors(live, fresh, r.Manager), nil
}

func answerTo(line []byte) (a answer) {
	defer func() {
		if p := recover(); p != nil {
			a = answer{Error: fmt.Sprintf("panic: %v", p)}
		}
	}()
	var r request
	if err := json.Unmarshal(line, &r); err != nil {
		return answer{Error: "request: " + err.Error()}
	}
	out, err := run(r)
	if err != nil {
		a.Error = err.Error()
		if status, ok := err.(apierrors.APIStatus); ok && status.Status().Details != nil {
			for _, cause := range status.Status().Details.Causes {
				a.Causes = append(a.Causes, cause.Message+" "+cause.Field)
			}
		}
		return a
	}
	if u, ok := out.(*unstructured.Unstructured); ok {
		out = u.Object
	}
	a.Object, err = json.Marshal(out)
	if err != nil {
		return answer{Error: "answer: " + err.Error()}
	}
	return a
}

func main() {
	in := bufio.NewReaderSize(os.Stdin, 1<<20)
	out := bufio.NewWriter(os.Stdout)
	for {
		line, err := in.ReadBytes('\n')
		if len(line) > 0 {
			b, _ := json.Marshal(answerTo(line))
			out.Write(append(b, '\n'))
			out.Flush()
		}
		if err != nil {
			return
		}
	}
}
