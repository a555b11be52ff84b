// Command internals prints, one struct per line, the fields of the real server's internal types. Validation
// messages show values of these types as JSON, with Go's field names, so the embedded server needs the names and
// their order. It reads sources from the module cache:
//
//	go run . $(go env GOMODCACHE)/k8s.io > ../internals.txt
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"sort"
	"strings"
)

// The packages to read, and the directory of the versioned types with the same field names.
var packages = map[string]string{
	"core": "core/v1", "apps": "apps/v1", "batch": "batch/v1", "policy": "policy/v1", "networking": "networking/v1",
	"rbac": "rbac/v1", "autoscaling": "autoscaling/v2", "storage": "storage/v1", "discovery": "discovery/v1",
	"scheduling": "scheduling/v1", "node": "node/v1", "admissionregistration": "admissionregistration/v1",
}

// The structs that messages show; what they contain follows.
var roots = []string{
	"core.PodTemplateSpec", "core.PodSpec", "core.ServicePort", "core.PersistentVolumeSource", "core.PersistentVolumeClaimSpec",
	"core.SecurityContext", "core.SeccompProfile", "core.Taint", "core.ObjectReference", "core.EventSource", "core.NodeAddress",
	"core.Toleration", "core.PodResourceClaim", "core.ScopeSelector", "core.LoadBalancerStatus", "core.VolumeNodeAffinity",
	"apps.DeploymentStrategy", "apps.DaemonSetUpdateStrategy", "apps.StatefulSetUpdateStrategy", "batch.PodFailurePolicy",
	"batch.SuccessPolicy", "batch.UncountedTerminatedPods", "policy.PodDisruptionBudgetSpec", "rbac.RoleRef", "networking.IngressRule",
	"core.ContainerResizePolicy", "core.ResourceRequirements", "storage.CSINodeDriver", "storage.VolumeAttachmentSpec",
	"core.PodIP", "core.HostIP", "core.ClusterTrustBundleProjection", "admissionregistration.ParamRef", "admissionregistration.MatchCondition",
}

type source struct{ types map[string]ast.Expr }

var internal = map[string]source{}
var versioned = map[string]source{}

func read(directory string) source {
	found := source{types: map[string]ast.Expr{}}
	files, _ := filepath.Glob(filepath.Join(directory, "*.go"))
	for _, file := range files {
		base := filepath.Base(file)
		if strings.HasSuffix(base, "_test.go") || strings.HasPrefix(base, "zz_") || strings.HasPrefix(base, "generated") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			panic(err)
		}
		for _, declaration := range tree.Decls {
			if general, ok := declaration.(*ast.GenDecl); ok {
				for _, spec := range general.Specs {
					if named, ok := spec.(*ast.TypeSpec); ok {
						found.types[named.Name.Name] = named.Type
					}
				}
			}
		}
	}
	return found
}

var leaves = map[string]string{
	"resource.Quantity": "Quantity", "intstr.IntOrString": "IntOrString", "metav1.Time": "Time", "metav1.MicroTime": "Time", "runtime.RawExtension": "any",
	"runtime.Object": "any", "types.UID": "string", "metav1.LabelSelector": "v1.LabelSelector", "metav1.Condition": "v1.Condition",
}

var seen = map[string]string{}

func spell(pkg string, expr ast.Expr) string {
	switch t := expr.(type) {
	case *ast.StarExpr:
		return "*" + spell(pkg, t.X)
	case *ast.ArrayType:
		if id, ok := t.Elt.(*ast.Ident); ok && id.Name == "byte" {
			return "any"
		}
		return "[]" + spell(pkg, t.Elt)
	case *ast.MapType:
		return "map:" + spell(pkg, t.Value)
	case *ast.Ident:
		switch t.Name {
		case "string", "bool", "int32", "int64", "float64":
			return t.Name
		case "int":
			return "int64"
		}
		under, ok := internal[pkg].types[t.Name]
		if !ok {
			return "any"
		}
		if body, ok := under.(*ast.StructType); ok {
			visit(pkg, t.Name, body)
			return pkg + "." + t.Name
		}
		return spell(pkg, under)
	case *ast.SelectorExpr:
		from := t.X.(*ast.Ident).Name
		if leaf, ok := leaves[from+"."+t.Sel.Name]; ok {
			return leaf
		}
		if from == "api" {
			from = "core"
		}
		if _, ok := packages[from]; ok {
			return spell(from, t.Sel)
		}
		return "any"
	}
	return "any"
}

// The JSON name of a field in the versioned type, if it is not the Go name in other case.
func jsonName(pkg, name, field string) string {
	body, ok := versioned[pkg].types[name].(*ast.StructType)
	if !ok {
		return ""
	}
	for _, f := range body.Fields.List {
		for _, n := range f.Names {
			if n.Name == field && f.Tag != nil {
				tag := strings.Split(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")[0]
				if !strings.EqualFold(tag, field) {
					return tag
				}
			}
		}
	}
	return ""
}

func visit(pkg, name string, body *ast.StructType) {
	full := pkg + "." + name
	if _, ok := seen[full]; ok {
		return
	}
	seen[full] = ""
	var fields []string
	for _, field := range body.Fields.List {
		if len(field.Names) == 0 {
			embedded := spell(pkg, field.Type)
			if selector, ok := field.Type.(*ast.SelectorExpr); ok && selector.Sel.Name == "ObjectMeta" {
				embedded = "v1.ObjectMeta"
			}
			fields = append(fields, "+"+embedded)
			continue
		}
		for _, n := range field.Names {
			word := n.Name
			if json := jsonName(pkg, name, n.Name); json != "" {
				word += ":" + json
			}
			fields = append(fields, word+"="+spell(pkg, field.Type))
		}
	}
	seen[full] = strings.Join(fields, " ")
}

func main() {
	cache := os.Args[1]
	for pkg, path := range packages {
		internal[pkg] = read(filepath.Join(cache, "kubernetes@v1.36.1/pkg/apis", pkg))
		versioned[pkg] = read(filepath.Join(cache, "api@v0.36.1", path))
	}
	for _, root := range roots {
		pkg, name, _ := strings.Cut(root, ".")
		spell(pkg, ast.NewIdent(name))
	}
	names := make([]string, 0, len(seen))
	for name := range seen {
		names = append(names, name)
	}
	sort.Strings(names)
	for _, name := range names {
		fmt.Println(strings.TrimSpace(name + " " + seen[name]))
	}
}
