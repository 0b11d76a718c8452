package taskset

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestReadDataJuicerReadsRecipes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "recipe.yaml")
	for _, c := range []struct {
		text string
		have Recipe
		want Recipe
		err  string
	}{
		{"dataset_path: a/b.jsonl\ntext_keys: [q, a]\nnp: 4\nprocess:\n- text_length_filter:\n    min_len: 3\n- " +
			"document_deduplicator:\n", Recipe{},
			Recipe{Inputs: []string{"a/b.jsonl"}, Fields: []string{"q", "a"},
				Operators: []Operator{{"text_length_filter", args{"min_len": 3}}, {"document_deduplicator", nil}}}, ""},
		{"text_keys: q\ndataset_path: a\nprocess: [{x: {}}]", Recipe{Inputs: []string{"b"}, Fields: []string{"f"}},
			Recipe{Inputs: []string{"b"}, Fields: []string{"f"}, Operators: []Operator{{"x", args{}}}}, ""},
		{"process: [{x: {}}]", Recipe{}, Recipe{}, "names no dataset_path: set inputs"},
		{"process: []", Recipe{}, Recipe{}, "no operators"},
		{"process: [{x: {}, y: {}}]", Recipe{}, Recipe{}, "process.0 has 2 names"},
		{"dataset: {configs: []}\nprocess: [{x: {}}]", Recipe{}, Recipe{}, "dataset is not supported"},
		{"text_keys: [3]\nprocess: [{x: {}}]", Recipe{}, Recipe{}, "text_keys"},
		{"process: 3", Recipe{}, Recipe{}, "cannot"},
	} {
		write(t, path, c.text)
		r := c.have
		err := r.ReadDataJuicer(path)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: %v, want %q", c.text, err, c.err)
			}
		} else if err != nil || !reflect.DeepEqual(r, c.want) {
			t.Errorf("%q gives %+v, %v, want %+v", c.text, r, err, c.want)
		}
	}
}
