package config

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.yaml.in/yaml/v4"
)

// Whatever the bytes are, Load returns a configuration or errors of its own type, each with a file.
func FuzzLoad(f *testing.F) {
	for _, seed := range []string{base, offlineBase, staged, "a: &a [*a]", "<<: {mode: both}", "model: {init: &i {seed: 1}}\ncod: *i",
		"? a\n: b", "---\n---\n",
		"stages: [{stage_name: x, buffer: null}]", "stages: [null]", "buffer: {trainer_input: {auxiliary_buffers: {a: null}}}", "\xff\xfe",
		"a: !!binary x"} {
		f.Add([]byte(seed), "mode=train")
	}
	if files, err := filepath.Glob(filepath.Join("..", "..", "examples", "*", "*.yaml")); err == nil {
		for _, file := range files {
			if data, err := os.ReadFile(file); err == nil {
				f.Add(data, "")
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, override string) {
		if len(data) > 1<<16 {
			return
		}
		opts := Options{Env: lookup, Engine: "cpu"}
		if override != "" {
			opts.Overrides = []string{override}
		}
		c, err := Parse("f.yaml", data, opts)
		if err != nil {
			var errs Errors
			if !errors.As(err, &errs) || len(errs) == 0 || errs[0].File == "" {
				t.Fatalf("%T %v", err, err)
			}
			return
		}
		if _, err := c.Plan(Facts{}); err != nil {
			t.Fatal(err)
		}
	})
}

// Resolving any text as a value ends, and text without an interpolation stays the same.
func FuzzInterpolate(f *testing.F) {
	for _, seed := range []string{"${project}", "${oc.env:N,${oc.env:S}}", `\${a}`, `\\${oc.env:N}`, "${oc.decode:'[1, {a: b}]'}",
		"${oc.select:a,}", "${..x}",
		"${a[0].b}", "${${oc.env:NAME}}", "${oc.env:'}", "${,:}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		src := &source{file: "f.yaml", opts: Options{Env: lookup}}
		value := stringNode(text)
		value.Line, value.Column = 1, 1
		src.root = &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{stringNode("x"), value}}
		errs := src.interpolate()
		if !strings.Contains(text, "${") && (len(errs) > 0 || value.Value != text) {
			t.Fatalf("%q became %q: %v", text, value.Value, errs)
		}
	})
}
