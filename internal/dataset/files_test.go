package dataset

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// write creates files in a new directory and returns the directory.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func gz(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := w.Write([]byte(text))
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func zst(t *testing.T, text string) string {
	t.Helper()
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(w.EncodeAll([]byte(text), nil))
}

// all returns every row.
func all(t *testing.T, d *Dataset) []map[string]any {
	t.Helper()
	rows := make([]map[string]any, d.Len())
	for i := range rows {
		var err error
		if rows[i], err = d.Row(i); err != nil {
			t.Fatal(err)
		}
	}
	return rows
}

func TestFormats(t *testing.T) {
	const jsonl = "\xef\xbb\xbf{\"q\": \"a\\nb\", \"n\": 1}\r\n\n  {\"q\": \"é\", \"n\": 2.5}  \n{\"q\": null, \"n\": [3.0, {\"m\": 1e3}]}"
	const array = "[{\"q\": \"a\\nb\", \"n\": 1},\n{\"q\": \"é\", \"n\": 2.5}, {\"q\": null, \"n\": [3.0, {\"m\": 1e3}]}]\n"
	want := []map[string]any{
		{"q": "a\nb", "n": int64(1)}, {"q": "é", "n": 2.5}, {"q": nil, "n": []any{json.Number("3.0"), map[string]any{"m": json.Number("1e3")}}},
	}
	table := []map[string]any{{"q": "a\nb", "n": "007"}, {"q": "say \"hi\", é", "n": ""}}
	for name, c := range map[string]struct {
		text string
		want []map[string]any
	}{
		"a.jsonl": {jsonl, want}, "a.ndjson": {jsonl, want}, "a.json": {array, want}, "lines.json": {jsonl, want},
		"data.json":   {`{"version": "1", "data": ` + array + `, "x": []}`, want},
		"one.json":    {"{\n\"q\": \"a\\nb\",\n\"n\": 1}\n", want[:1]},
		"a.jsonl.gz":  {gz(t, jsonl), want},
		"a.json.gz":   {gz(t, array), want},
		"a.jsonl.zst": {zst(t, jsonl), want},
		"a.json.zst":  {zst(t, `{"data": `+array+`}`), want},
		"rows.json":   {"{\n\"q\": \"a\\nb\", \"n\": 1}\n {\"q\": \"é\",\n\"n\": 2.5}{\"q\": null, \"n\": [3.0, {\"m\": 1e3}]}", want},
		"list.json":   {"{\"data\": [1]}\n{\"data\": []}\n", []map[string]any{{"data": []any{int64(1)}}, {"data": []any{}}}},
		"twice.json":  {`{"x": {"data": [7]}, "data": 1, "data": [{"q": "]}\\\""}], "data": [{}]}`, []map[string]any{{"q": `]}\"`}}},
		"a.csv.gz":    {gz(t, "q,n\r\n\"a\nb\",007\r\n\"say \"\"hi\"\", é\",\r\n"), table},
		"a.tsv.zst":   {zst(t, "q\tn\n\"a\nb\"\t007\n\"say \"\"hi\"\", é\"\t\n"), table},
		"a.csv":       {"\xef\xbb\xbfq,n\r\n\"a\nb\",007\r\n\"say \"\"hi\"\", é\",\r\n", table},
		"a.tsv":       {"q\tn\n\"a\nb\"\t007\n\"say \"\"hi\"\", é\"\t\n", table},
		"empty.jsonl": {"", []map[string]any{}}, "empty.json": {" \n", []map[string]any{}}, "empty.csv": {"", []map[string]any{}},
		"none.json": {"[]", []map[string]any{}},
	} {
		d, err := Open(t.Context(), filepath.Join(write(t, map[string]string{name: c.text}), name), Options{Split: "test"})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got := all(t, d); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: got %#v, want %#v", name, got, c.want)
		}
	}
}

func TestErrorsNameFileAndLine(t *testing.T) {
	for name, c := range map[string]struct{ text, want string }{
		"a.jsonl":      {"{\"q\": 1}\n\n{\"q\": 1\n", "a.jsonl:3: not JSON"},
		"b.jsonl":      {"{\"q\": 1}\n[1]\n", "b.jsonl:2: \"[1]\" is no JSON object"},
		"two.jsonl":    {"{\"q\": 1} {\"q\": 2}\n", "two.jsonl:1: not JSON"},
		"c.json":       {"[{\"q\": 1},\n\n3]", "c.json:3: \"3\" is no JSON object"},
		"d.json":       {"[{\"q\": 1},\n{\"q\": ]", "d.json:2: not JSON"},
		"e.json":       {"\n\"text\"", "e.json:2: want an array of objects"},
		"f.json":       {"{\"q\": 1}\nnonsense\n", "f.json:2: not JSON"},
		"g.csv":        {"q,n\n1,2\n1,2,3\n", "g.csv: record on line 3: wrong number of fields"},
		"s.csv":        {"q;\"n\"\n1;2\n", "s.csv:1: the columns are separated by ';': save the file with commas as .csv, or with tabs as .tsv"},
		"tabs.csv":     {"q\tn\n1\t2\n", "tabs.csv:1: the columns are separated by '\\t'"},
		"commas.tsv":   {"q,n\n1,2\n", "commas.tsv:1: the columns are separated by ','"},
		"h.csv":        {"q,q\n1,2\n", `h.csv:1: two columns are named "q"`},
		"i.jsonl.gz":   {"no gzip", "i.jsonl.gz"},
		"j.jsonl.zst":  {"no zstandard", "j.jsonl.zst"},
		"k.json.gz":    {gz(t, "[{\"q\": 1}]")[:20], "k.json.gz: the file ends in the middle of its compressed data"},
		"l.parquet":    {"PAR1", "l.parquet"},
		"m.arrow":      {"x", "m.arrow: unreadable Arrow file: EOF"},
		"long.jsonl":   {"{}\n{\"q\": \"" + strings.Repeat("x", maxRow) + "\"}\n", "long.jsonl:2: row of more than"},
		"wrong.txt.gz": {"x", "wrong.txt.gz: not a format"},
		"n.json":       {"[{\"q\": 1},\n {\"q\": 2}", "n.json:2: not JSON: it ends too early"},
		"o.json":       {"[{\"q\": 1}]\n]", "o.json:2: not JSON: ']' follows its end"},
		"p.json":       {"[{\"q\": 1}\n{\"q\": 2}]", "p.json:2: not JSON: '{', want ','"},
		"q.json":       {"{\"data\": [{}],\n\"x\": nonsense}", "q.json:2: not JSON"},
		"r.json":       {"{\"data\": [{}],\nx: 1}", "r.json:2: not JSON"},
		"s.json":       {"[{},\n]", "s.json:2: not JSON"},
		"t.csv.gz":     {"x", "t.csv.gz"},
		"long.json":    {"[{},\n{\"q\": \"" + strings.Repeat("x", maxRow) + "\"}]", "long.json:2: row of more than"},
	} {
		_, err := Open(t.Context(), filepath.Join(write(t, map[string]string{name: c.text}), name), Options{})
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
	}
}

func TestRowsOutOfRangeAndChangedFiles(t *testing.T) {
	dir := write(t, map[string]string{"a.jsonl": "{\"q\": 1}\n{\"q\": 2}\n"})
	path := filepath.Join(dir, "a.jsonl")
	d, err := Open(t.Context(), path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, i := range []int{-1, 2} {
		if _, err := d.Row(i); err == nil || !strings.Contains(err.Error(), "it has 2 rows") {
			t.Errorf("row %d: %v", i, err)
		}
	}
	if err := os.Truncate(path, 9); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Row(1); err == nil || !strings.Contains(err.Error(), "a.jsonl:2: the file has changed") {
		t.Errorf("a file that was cut: %v", err)
	}
}

func TestNumbers(t *testing.T) {
	for text, want := range map[string]any{
		"0": int64(0), "-0": math.Copysign(0, -1), "3.0": json.Number("3.0"), "1e3": json.Number("1e3"), "0.5": 0.5, "1e+30": 1e30,
		"9223372036854775807": int64(9223372036854775807), "9223372036854775808": json.Number("9223372036854775808"),
		"-9223372036854775808": int64(-9223372036854775808), "1e300": json.Number("1e300"), "-2.50": json.Number("-2.50"),
		"9007199254740993": int64(9007199254740993), "1234567.5": 1234567.5, "1e400": json.Number("1e400"),
		"0.1000000000000000055511151231257827": json.Number("0.1000000000000000055511151231257827"),
		"100000000000000000000":                1e20, "1000000000000000000000": json.Number("1000000000000000000000"),
	} {
		if got := number(text); got != want {
			t.Errorf("%s is %v (%T), want %v (%T)", text, got, got, want, want)
		}
	}
}

func TestRowsAreReadConcurrently(t *testing.T) {
	var text strings.Builder
	for i := range 300 {
		fmt.Fprintf(&text, "{\"i\": %d}\n", i)
	}
	d, err := Open(t.Context(), write(t, map[string]string{"train-0.jsonl": text.String(), "train-1.jsonl": text.String()}), Options{})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range d.Len() {
				if row, err := d.Row(i); err != nil || row["i"] != int64(i%300) {
					t.Errorf("row %d: %v, %v", i, row, err)
				}
			}
		})
	}
	wg.Wait()
}

// shared returns the path of test data beside the repository.
func shared(t *testing.T, path string) string {
	t.Helper()
	p := filepath.Join("..", "..", "..", "shared", "data", filepath.FromSlash(path))
	if _, err := os.Stat(p); err != nil {
		t.Skipf("no shared data: %v", err)
	}
	return p
}

func TestSharedData(t *testing.T) {
	for _, c := range []struct {
		path, split string
		rows        int
		last        map[string]any
	}{
		{"gsm8k", "train", 7473, nil}, {"gsm8k", "test", 1319, nil},
		{"arithmetic", "train", 2000, nil}, {"arithmetic", "eval", 200, nil}, {"arithmetic", "sft", 2000, nil},
		{"countdown/eval.jsonl", "", 200, nil}, {"countdown", "train", 2000, nil},
	} {
		d, err := Open(t.Context(), shared(t, c.path), Options{Split: c.split})
		if err != nil {
			t.Error(err)
			continue
		}
		if d.Len() != c.rows {
			t.Errorf("%s, %s: %d rows, want %d", c.path, c.split, d.Len(), c.rows)
		}
		if q, ok := all(t, d)[c.rows-1]["question"].(string); !ok || q == "" {
			t.Errorf("%s, %s: the last row has no question", c.path, c.split)
		}
	}
}

// A truncated compressed file is an error that says so, wherever it ends. The error contains
// nothing of the row at its end.
func TestTruncatedCompressedFiles(t *testing.T) {
	rows, table := "", "question,answer\n"
	for i := range 100 {
		rows += fmt.Sprintf("{\"question\": \"%d plus %d\"}\n", i, i*7919%1000)
		table += fmt.Sprintf("\"%d plus\n%d\",%d\n", i, i*7919%1000, i)
	}
	for name, whole := range map[string]string{"cut.jsonl.gz": gz(t, rows), "cut.json.gz": gz(t, rows), "cut.csv.gz": gz(t, table),
		"cut.jsonl.zst": zst(t, rows)} {
		for n := 1; n < len(whole); n += 3 {
			_, err := Open(t.Context(), filepath.Join(write(t, map[string]string{name: whole[:n]}), name), Options{})
			if err == nil || !strings.Contains(err.Error(), name+":") ||
				!strings.HasSuffix(err.Error(), ": the file ends in the middle of its compressed data, it is cut off: copy it again") {
				t.Errorf("%s with %d of %d bytes: %v", name, n, len(whole), err)
			}
		}
	}
}
