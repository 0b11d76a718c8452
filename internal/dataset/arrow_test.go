package dataset

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/decimal128"
	"github.com/apache/arrow-go/v18/arrow/memory"
)

// pyarrow wrote the files from the Parquet file: testdata/record_arrow.py.
func TestArrowEqualsItsParquet(t *testing.T) {
	parquet, err := Open(t.Context(), "testdata/types_zstd_v2.parquet", Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := all(t, parquet)
	for _, path := range []string{"testdata/stream.arrow", "testdata/file_lz4.arrow"} {
		var done, total int64
		d, err := Open(t.Context(), path, Options{Progress: func(_ string, d, all int64) { done, total = d, all }})
		if err != nil {
			t.Fatal(err)
		}
		got := all(t, d)
		if len(got) != len(want) || done != total || total == 0 {
			t.Fatalf("%s: %d rows, want %d; %d of %d were told", path, len(got), len(want), done, total)
		}
		for i := range want {
			for key := range want[i] {
				if !reflect.DeepEqual(got[i][key], want[i][key]) {
					t.Errorf("%s, row %d, %s: got %#v, want %#v", path, i, key, got[i][key], want[i][key])
				}
			}
		}
	}
}

// pyarrow wrote both files from one table, whose rows are in numbers.want.json: testdata/record_parquet.py.
func TestArrowNumbersEqualTheirParquet(t *testing.T) {
	var rows [2][]map[string]any
	for i, path := range []string{"testdata/numbers.parquet", "testdata/numbers.arrow"} {
		d, err := Open(t.Context(), path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		rows[i] = all(t, d)
	}
	for i, want := range rows[0] {
		for key := range want {
			if !reflect.DeepEqual(rows[1][i][key], want[key]) {
				t.Errorf("row %d, %s: got %#v, want %#v", i, key, rows[1][i][key], want[key])
			}
		}
	}
}

// Arrow alone has decimals with zeros before the point that are not written, and runs of equal values.
func TestTypesOfArrowAlone(t *testing.T) {
	pool := memory.NewGoAllocator()
	hundreds := array.NewDecimal128Builder(pool, &arrow.Decimal128Type{Precision: 5, Scale: -2})
	hundreds.AppendValues([]decimal128.Num{decimal128.FromI64(3), decimal128.FromI64(-1)}, nil)
	runs := array.NewRunEndEncodedBuilder(pool, arrow.PrimitiveTypes.Int32, arrow.BinaryTypes.String)
	runs.Append(2)
	runs.ValueBuilder().(*array.StringBuilder).Append("a")
	for _, c := range []struct {
		column arrow.Array
		want   []any
	}{
		{hundreds.NewArray(), []any{json.Number("300"), json.Number("-100")}}, {runs.NewArray(), []any{"a", "a"}},
	} {
		for i, want := range c.want {
			if got, err := arrowValue(c.column, i); err != nil || got != want {
				t.Errorf("%s, %d: %v, %v; want %v", c.column.DataType(), i, got, err, want)
			}
		}
	}
}

func TestMapWithAKeyTwice(t *testing.T) {
	out := map[string]any{}
	for _, key := range []any{"a", 1.5, json.Number("1e3"), []any{"x"}} {
		if err := addKey(out, key, nil); err != nil {
			t.Error(err)
		}
	}
	if err := addKey(out, 1.5, nil); err == nil || !strings.Contains(err.Error(), `the key "1.5" twice`) || len(out) != 4 {
		t.Errorf("got %v, %v", err, out)
	}
}

func TestDatasetSavedToDisk(t *testing.T) {
	data, err := os.ReadFile("testdata/stream.arrow")
	if err != nil {
		t.Fatal(err)
	}
	dir := write(t, map[string]string{
		"dataset_dict.json": `{"splits": ["train", "test"]}`, "train/dataset_info.json": "{}", "train/state.json": "{}",
		"train/cache-0a1b.arrow":          "x",
		"train/data-00000-of-00002.arrow": string(data), "train/data-00001-of-00002.arrow": string(data),
		"test/data-00000-of-00001.arrow": string(data),
		"test/state.json":                "{}",
	})
	one, err := Open(t.Context(), "testdata/stream.arrow", Options{})
	if err != nil {
		t.Fatal(err)
	}
	for path, shards := range map[string]int{dir: 2, filepath.Join(dir, "test"): 1} {
		if d, err := Open(t.Context(), path, Options{}); err != nil || d.Len() != shards*one.Len() {
			t.Errorf("%s: %v, want %d rows", path, err, shards*one.Len())
		}
	}
}

func TestDamagedArrow(t *testing.T) {
	for _, path := range []string{"testdata/stream.arrow", "testdata/file_lz4.arrow"} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{0, 3, 8, len(data) / 2} {
			if _, err := held("cut.arrow", data[:n], Options{}).read(t.Context()); err == nil || !strings.Contains(err.Error(), "cut.arrow") {
				t.Errorf("%d bytes of %s: %v", n, path, err)
			}
		}
	}
}

func FuzzArrow(f *testing.F) {
	for _, path := range []string{"testdata/numbers.arrow", "testdata/stream.arrow", "testdata/file_lz4.arrow"} {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := held("file.arrow", data, Options{}).read(t.Context())
		readable(t, s, err)
	})
}
