package dataset

import (
	"bytes"
	"os"
	"strings"
	"testing"
)

// readable fails unless it can read every row of a shard.
func readable(t *testing.T, s shard, err error) {
	if err != nil {
		if !strings.Contains(err.Error(), "file.") {
			t.Errorf("an error that names no file: %v", err)
		}
		return
	}
	for i := range s.len() {
		data, err := s.row(i)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := decodeRow(data); err != nil {
			t.Errorf("%s: %v", s.where(i), err)
		}
	}
}

// held returns an input in memory.
func held(path string, data []byte, opts Options) *input {
	return &input{path, bytes.NewReader(data), int64(len(data)), opts}
}

func FuzzJSON(f *testing.F) {
	for _, seed := range []string{"[{\"a\": 1}, {}]", "{\"data\": [{}], \"x\": {\"data\": [1]}}", "{}\n{\"a\": [1.5, null]}\n",
		"\xef\xbb\xbf[]", " {\n\"a\":\n\"\\ud800\"}"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := readJSON(held("file.json", data, Options{held: 64}))
		readable(t, s, err)
		s, err = readLines(held("file.jsonl", data, Options{}))
		readable(t, s, err)
	})
}

func FuzzCSV(f *testing.F) {
	f.Add("a,b\n1,\"x\ny\"\n", false)
	f.Add("\xef\xbb\xbfa\tb\n\xff\t\n", true)
	f.Fuzz(func(t *testing.T, text string, tabs bool) {
		path := "file.csv"
		if tabs {
			path = "file.tsv"
		}
		s, err := readCSV(held(path, []byte(text), Options{}))
		readable(t, s, err)
	})
}

func FuzzParquet(f *testing.F) {
	data, err := os.ReadFile("testdata/types_gzip_plain.parquet")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	if data, err = os.ReadFile("testdata/numbers.parquet"); err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Fuzz(func(t *testing.T, data []byte) {
		s, err := held("file.parquet", data, Options{held: 64}).read(t.Context())
		readable(t, s, err)
	})
}
