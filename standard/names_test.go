package standard

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/registry"
)

// Package config names no engine, store, monitor or way of weights: it knows them by their registries. upstream.go is data: names of
// Trinity-RFT, some of which this program has.
func TestConfigNamesNoPlugin(t *testing.T) {
	kinds := map[string]string{}
	for _, kind := range []string{"trainer", "sampler", "buffer", "monitor", "weights"} {
		catalog, ok := registry.Find(kind)
		if !ok || len(catalog.Names()) == 0 {
			t.Fatalf("there is no %s", kind)
		}
		for _, name := range catalog.Names() {
			kinds[name] = kind
		}
	}
	files, err := filepath.Glob("../config/*.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") || filepath.Base(file) == "upstream.go" {
			continue
		}
		src, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		fs := token.NewFileSet()
		parsed, err := parser.ParseFile(fs, file, src, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			literal, ok := n.(*ast.BasicLit)
			if !ok || literal.Kind != token.STRING {
				return true
			}
			for _, word := range words(literal.Value) {
				if kind, named := kinds[word]; named && filepath.Base(file)+" "+word != "plan_text.go memory" { // a heading of the plan
					t.Errorf("%s names the %s %q: ask the registry", fs.Position(literal.Pos()), kind, word)
				}
			}
			return true
		})
	}
}

// words returns a literal, or of a struct tag with a plug-in the values of default and enum that are no words of Trinity-RFT.
func words(literal string) []string {
	text, err := strconv.Unquote(literal)
	if err != nil {
		return nil
	}
	tag := reflect.StructTag(text)
	if tag.Get("yaml") == "" {
		return []string{text}
	}
	if tag.Get("plugin") == "" {
		return nil // values of the key's own
	}
	upstream := []string{"memory"} // of sync_method
	return slices.DeleteFunc(append(strings.Split(tag.Get("enum"), "|"), tag.Get("default")), func(w string) bool { return slices.Contains(upstream, w) })
}
