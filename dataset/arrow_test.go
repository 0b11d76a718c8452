package dataset

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
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
	for _, path := range []string{"testdata/stream.arrow", "testdata/file_lz4.arrow"} {
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
