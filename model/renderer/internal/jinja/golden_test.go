package jinja

import (
	"compress/gzip"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

// record is the result of Python for a template and a context; testdata/record.py writes it.
type record struct {
	Text        string
	Generations [][2]int // characters
	Error       string
}

var recordedAt = time.Date(2026, 11, 5, 14, 7, 9, 0, time.UTC)

func loadGolden(t testing.TB) (contexts []map[string]any, snippets []string, golden struct {
	Templates map[string][]record
	Snippets  []record
	Random    []struct {
		Source string
		record
	}
	RandomContext map[string]json.RawMessage `json:"random_context"`
},
) {
	t.Helper()
	var raw []map[string]json.RawMessage
	readJSON(t, "contexts.json", &raw)
	for _, c := range raw {
		variables := map[string]any{}
		for id, v := range c {
			variables[id] = v
		}
		contexts = append(contexts, variables)
	}
	readJSON(t, "snippets.json", &snippets)
	readJSON(t, "golden.json.gz", &golden)
	return contexts, snippets, golden
}

func readJSON(t testing.TB, name string, v any) {
	t.Helper()
	f, err := os.Open(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	d := json.NewDecoder(f)
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(f)
		if err != nil {
			t.Fatal(err)
		}
		d = json.NewDecoder(z)
	}
	if err := d.Decode(v); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func renderSource(name, src string, context map[string]any) (Output, error) {
	tpl, err := Parse(name, src)
	if err != nil {
		return Output{}, err
	}
	tpl.Clock = func() time.Time { return recordedAt }
	return tpl.Render(context)
}

func TestTemplatesMatchPython(t *testing.T) {
	contexts, _, golden := loadGolden(t)
	for name, records := range golden.Templates {
		src, err := os.ReadFile(filepath.Join("testdata", "templates", name))
		if err != nil {
			t.Fatal(err)
		}
		if len(records) != len(contexts) {
			t.Fatalf("%s: %d records for %d contexts: run testdata/record.py", name, len(records), len(contexts))
		}
		for i, want := range records {
			got, err := renderSource(name, string(src), contexts[i])
			if diff := compareRecord(got, err, want); diff != "" {
				t.Errorf("%s, context %d: %s", name, i, diff)
			}
		}
	}
}

// refused are snippets that Python renders and this package refuses with an error. Snippets that
// Python renders as a memory address need no entry.
var refused = map[string]string{
	"{{ 1.0.real }}":               "numbers have no attributes here",
	"{{ none[1:] }}":               "Python folds a constant slice to an undefined value; with a variable it fails too",
	"{{ {'a':1}[1:] }}":            "as above",
	"{{ [1,2,3]['a':] }}":          "as above",
	"{{ self }}":                   "blocks and inheritance",
	"{% block a %}x{% endblock %}": "blocks and inheritance",
}

func TestSnippetsMatchPython(t *testing.T) {
	contexts, snippets, golden := loadGolden(t)
	if len(snippets) != len(golden.Snippets) {
		t.Fatalf("%d records for %d snippets: run testdata/record.py", len(golden.Snippets), len(snippets))
	}
	for i, want := range golden.Snippets {
		got, err := renderSource("snippet", snippets[i], contexts[1])
		if _, ok := refused[snippets[i]]; (ok || strings.Contains(want.Text, " at 0x")) && err != nil {
			continue
		}
		if diff := compareRecord(got, err, want); diff != "" {
			t.Errorf("%q: %s", snippets[i], diff)
		}
	}
}

func TestRandomTemplatesMatchPython(t *testing.T) {
	_, _, golden := loadGolden(t)
	context := map[string]any{}
	for id, v := range golden.RandomContext {
		context[id] = v
	}
	compared := 0
	for _, want := range golden.Random {
		got, err := renderSource("random", want.Source, context)
		var e *Error
		if errors.As(err, &e) && (e.Kind == Unsupported || e.Kind == Limit) || strings.Contains(want.Text, " at 0x") {
			continue // an error for an unsupported construct is never wrong
		}
		compared++
		if diff := compareRecord(got, err, want.record); diff != "" {
			t.Errorf("%s\n%s", want.Source, diff)
		}
	}
	if compared < len(golden.Random)*9/10 {
		t.Errorf("only %d of %d templates are supported", compared, len(golden.Random))
	}
}

// compareRecord returns the difference between a render and Python's, or "". If Python fails, this
// package must fail too, with the same message for raise_exception.
func compareRecord(got Output, err error, want record) string {
	var e *Error
	if err != nil && (!errors.As(err, &e) || e.Line == 0) {
		return "an error without a line: " + err.Error()
	}
	switch {
	case want.Error != "" && err == nil:
		return "rendered " + quote(got.Text) + ", Python fails: " + want.Error
	case want.Error != "":
		if message, raised := strings.CutPrefix(want.Error, "TemplateError: "); raised && (e.Kind != Raised || e.Msg != message) {
			return "error " + err.Error() + ", Python raises " + message
		}
		return ""
	case err != nil:
		return err.Error() + "; Python renders " + quote(want.Text)
	case got.Text != want.Text:
		return "\n got " + quote(got.Text) + "\nwant " + quote(want.Text)
	}
	if got.Untracked {
		return ""
	}
	if len(got.Generations) != len(want.Generations) {
		return "generations differ in number"
	}
	for i, g := range got.Generations {
		chars := [2]int{utf8.RuneCountInString(got.Text[:g[0]]), utf8.RuneCountInString(got.Text[:g[1]])}
		if chars != want.Generations[i] {
			return "generation spans differ"
		}
	}
	return ""
}
