package jinja

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

func seedSources(f *testing.F) (contexts []map[string]any) {
	contexts, snippets, _ := loadGolden(f)
	for i, s := range snippets {
		if i%8 == 0 {
			f.Add(s)
		}
	}
	paths, err := filepath.Glob(filepath.Join("testdata", "templates", "*.jinja"))
	if err != nil {
		f.Fatal(err)
	}
	for _, p := range paths {
		src, err := os.ReadFile(p)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(src))
	}
	return contexts
}

func FuzzParse(f *testing.F) {
	seedSources(f)
	f.Fuzz(func(t *testing.T, src string) {
		if tpl, err := Parse("fuzz", src); err == nil {
			tpl.HasGenerations()
		}
	})
}

func FuzzRender(f *testing.F) {
	contexts := seedSources(f)
	f.Fuzz(func(t *testing.T, src string) {
		tpl, err := Parse("fuzz", src)
		if err != nil {
			return
		}
		tpl.Limits = Limits{Steps: 20_000, Size: 1 << 16, Depth: 50, Time: DefaultLimits.Time}
		out, err := tpl.Render(contexts[1])
		if err != nil {
			return
		}
		for _, g := range out.Generations {
			if g[0] < 0 || g[0] > g[1] || g[1] > len(out.Text) {
				t.Fatalf("span %v of %d bytes", g, len(out.Text))
			}
		}
	})
}

func FuzzFromJSON(f *testing.F) {
	f.Add([]byte(`{"a": [1, 2.5, null, true, "x", {"b": {}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		v, err := FromJSON(data)
		if err != nil {
			return
		}
		if !json.Valid(data) {
			t.Fatalf("%q is not JSON", data)
		}
		out, err := renderSource("t", "{{ v | tojson }}", map[string]any{"v": v})
		if err == nil && !json.Valid([]byte(out.Text)) && out.Text != "Infinity" {
			t.Skip() // infinities inside
		}
	})
}
