package dataset

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// pyarrow wrote the files, and read the rows to compare with: testdata/record_parquet.py.
func TestParquetMatchesPyarrow(t *testing.T) {
	files, err := filepath.Glob("testdata/*.parquet")
	if err != nil || len(files) == 0 {
		t.Fatalf("no recorded files: %v", err)
	}
	for _, path := range files {
		data, err := os.ReadFile(strings.TrimSuffix(path, ".parquet") + ".want.json")
		if err != nil {
			t.Fatal(err)
		}
		var want []any
		dec := json.NewDecoder(bytes.NewReader(data))
		dec.UseNumber()
		if err := dec.Decode(&want); err != nil {
			t.Fatal(err)
		}
		numbers(want)
		d, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		if d.Len() != len(want) {
			t.Fatalf("%s: %d rows, want %d", path, d.Len(), len(want))
		}
		for i := range want {
			got, err := d.Row(i)
			if err != nil {
				t.Fatal(err)
			}
			for key, w := range want[i].(map[string]any) {
				if !reflect.DeepEqual(got[key], w) {
					t.Errorf("%s, row %d, %s: got %#v, want %#v", path, i, key, got[key], w)
				}
			}
			if len(got) != len(want[i].(map[string]any)) {
				t.Errorf("%s, row %d has %d columns, want %d", path, i, len(got), len(want[i].(map[string]any)))
			}
		}
	}
}

func TestDamagedParquet(t *testing.T) {
	data, err := os.ReadFile("testdata/types_snappy_v1.parquet")
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 3, 8, len(data) / 2, len(data) - 1} {
		if _, err := held("cut.parquet", data[:n], Options{}).read(t.Context()); err == nil || !strings.Contains(err.Error(), "cut.parquet") {
			t.Errorf("cut to %d bytes: %v", n, err)
		}
	}
}
