// Command gotypes prints, one struct per line, how Go's JSON package sees the
// Kubernetes API types: JSON names, Go types, and which zero values are left out.
// The embedded API server needs these facts to decode and encode as the real one does.
package main

import (
	"fmt"
	"reflect"
	"sort"
	"strings"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	apiregistration "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

var structs = map[string]string{}

// Types with their own JSON form are leaves.
var leaves = map[string]string{
	"resource.Quantity": "Quantity", "intstr.IntOrString": "IntOrString", "v1.Time": "Time", "v1.MicroTime": "MicroTime",
	"runtime.RawExtension": "RawExtension", "v1.FieldsV1": "FieldsV1", "v1.Duration": "Duration",
	"v1.JSON": "JSON", "v1.JSONSchemaPropsOrArray": "JSONSchemaPropsOrArray", "v1.JSONSchemaPropsOrBool": "JSONSchemaPropsOrBool",
	"v1.JSONSchemaPropsOrStringArray": "JSONSchemaPropsOrStringArray", "runtime.Unknown": "Unknown",
}

func name(t reflect.Type) string {
	p := strings.TrimPrefix(t.PkgPath(), "k8s.io/")
	p = strings.NewReplacer("apimachinery/pkg/apis/", "", "apiextensions-apiserver/pkg/apis/", "", "kube-aggregator/pkg/apis/", "", "api/", "").Replace(p)
	return strings.ReplaceAll(p, "/", ".") + "." + t.Name()
}

func spell(t reflect.Type) string {
	if l, ok := leaves[t.String()]; ok {
		if t.String() == "v1.JSONSchemaPropsOrArray" || t.String() == "v1.JSONSchemaPropsOrBool" || t.String() == "v1.JSON" || t.String() == "v1.JSONSchemaPropsOrStringArray" {
			visit(reflect.TypeOf(apiextensions.JSONSchemaProps{}))
		}
		return l
	}
	switch t.Kind() {
	case reflect.Pointer:
		return "*" + spell(t.Elem())
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "bytes"
		}
		return "[]" + spell(t.Elem())
	case reflect.Map:
		return "map:" + spell(t.Elem())
	case reflect.Struct:
		visit(t)
		return "&" + name(t)
	default:
		if t.PkgPath() != "" {
			return t.Kind().String() + ":" + t.String()
		}
		return t.Kind().String()
	}
}

func fields(t reflect.Type, out *[]string) {
	for i := 0; i < t.NumField(); i++ {
		f := t.Field(i)
		if !f.IsExported() {
			continue
		}
		parts := strings.Split(f.Tag.Get("json"), ",")
		opt := ""
		for _, o := range parts[1:] {
			switch o {
			case "omitempty":
				opt += "?"
			case "omitzero":
				opt += "0"
			}
		}
		if f.Anonymous && parts[0] == "" {
			ft := f.Type
			if ft.Kind() == reflect.Pointer {
				ft = ft.Elem()
			}
			fields(ft, out)
			continue
		}
		if parts[0] == "-" {
			continue
		}
		n := parts[0]
		if n == "" {
			n = f.Name
		}
		*out = append(*out, n+"="+spell(f.Type)+opt)
	}
}

func visit(t reflect.Type) {
	n := name(t)
	if _, ok := structs[n]; ok {
		return
	}
	structs[n] = ""
	var fs []string
	fields(t, &fs)
	structs[n] = strings.Join(fs, " ")
}

func main() {
	s := runtime.NewScheme()
	_ = scheme.AddToScheme(s)
	_ = apiextensions.AddToScheme(s)
	_ = apiregistration.AddToScheme(s)
	var kinds []string
	for gvk, t := range s.AllKnownTypes() {
		if gvk.Version == runtime.APIVersionInternal || gvk.Version == "__internal" || strings.HasSuffix(gvk.Kind, "List") || strings.HasSuffix(gvk.Kind, "Options") || strings.Contains(gvk.Version, "beta") || strings.Contains(gvk.Version, "alpha") || gvk.Kind == "WatchEvent" {
			continue
		}
		gv := gvk.GroupVersion().String()
		visit(t)
		kinds = append(kinds, "kind "+gv+" "+gvk.Kind+" "+name(t))
	}
	sort.Strings(kinds)
	for _, k := range kinds {
		fmt.Println(k)
	}
	var names []string
	for n := range structs {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		fmt.Println(n + " " + structs[n])
	}
}
