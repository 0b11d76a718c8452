package dataset

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dirOf makes JSON Lines files that hold their own names; Parquet and others are not opened by findSplit.
func dirOf(t *testing.T, names ...string) string {
	t.Helper()
	files := map[string]string{}
	for _, n := range names {
		files[n] = fmt.Sprintf("{\"file\": %q}\n", n)
	}
	return write(t, files)
}

func TestFindSplit(t *testing.T) {
	for _, c := range []struct {
		files         []string
		split, subset string
		want          string // files, or part of the error
	}{
		{[]string{"train.jsonl", "test.jsonl"}, "", "", "train.jsonl"},
		{[]string{"train.jsonl", "test.jsonl"}, "test", "", "test.jsonl"},
		{[]string{"train-00001-of-00002.parquet", "train-00000-of-00002.parquet", "test-00000-of-00001.parquet"}, "train", "", "train-00000-of-00002.parquet train-00001-of-00002.parquet"},
		{[]string{"README.md", "data/train-00000-of-00001.parquet", "data/test-00000-of-00001.parquet"}, "test", "", "data/test-00000-of-00001.parquet"},
		{[]string{"main/train-0.parquet", "socratic/train-0.parquet"}, "train", "socratic", "socratic/train-0.parquet"},
		{[]string{"main/train-0.parquet", "socratic/train-0.parquet"}, "train", "", `in several directories (main/train-0.parquet, socratic/train-0.parquet): name one as subset_name`},
		{[]string{"main/train-0.parquet"}, "train", "other", `no subset "other": there is main/train-0.parquet`},
		{[]string{"main/train/0000.parquet", "main/test/0000.parquet"}, "test", "main", "main/test/0000.parquet"},
		{[]string{"main_train.jsonl", "other_train.jsonl"}, "train", "main", "main_train.jsonl"},
		{[]string{"data.jsonl"}, "train", "", "data.jsonl"},
		{[]string{"a.jsonl", "b.jsonl"}, "", "", "a.jsonl b.jsonl"},
		{[]string{"data.jsonl"}, "test", "", `no split "test": there is data.jsonl`},
		{[]string{"test.jsonl", "more.jsonl"}, "train", "", `no split "train"`},
		{[]string{"val.jsonl", "training.jsonl"}, "validation", "", "val.jsonl"},
		{[]string{"constraint.jsonl", "my_train_set.jsonl"}, "train", "", "my_train_set.jsonl"},
		{[]string{"test_sft.jsonl", "train_sft.jsonl"}, "train_sft", "", "train_sft.jsonl"},
		{[]string{"train.jsonl", "old/train.jsonl"}, "train", "", "train.jsonl"},
		{[]string{"train.jsonl", "train.csv"}, "train", "", "in two formats (train.csv and train.jsonl)"},
		{[]string{".cache/train.jsonl", "dataset_infos.json", "train.json"}, "train", "", "train.json"},
		{[]string{"README.md"}, "train", "", "no files in it"},
	} {
		dir := dirOf(t, c.files...)
		got, err := findSplit(dir, c.split, c.subset)
		for i := range got {
			rel, err := filepath.Rel(dir, got[i])
			if err != nil {
				t.Fatal(err)
			}
			got[i] = filepath.ToSlash(rel)
		}
		if text := strings.Join(got, " ") + fmt.Sprint(err); text != c.want+"<nil>" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("split %q, subset %q of %v: got %v, %v; want %s", c.split, c.subset, c.files, got, err, c.want)
		}
	}
}

func TestShardsFollowOneAnother(t *testing.T) {
	d, err := Open(dirOf(t, "data/train-00000-of-00002.jsonl", "data/train-00001-of-00002.jsonl", "data/test.jsonl"), Options{Split: "train"})
	if err != nil {
		t.Fatal(err)
	}
	rows := all(t, d)
	if len(rows) != 2 || rows[0]["file"] != "data/train-00000-of-00002.jsonl" || rows[1]["file"] != "data/train-00001-of-00002.jsonl" {
		t.Errorf("rows %v", rows)
	}
	if !strings.HasSuffix(filepath.ToSlash(d.Where(1)), "data/train-00001-of-00002.jsonl:1") {
		t.Errorf("row 1 is at %s", d.Where(1))
	}
}

func TestNamesAreResolved(t *testing.T) {
	dir := dirOf(t, "main/train.jsonl")
	resolve := func(name string) (string, error) {
		if name != "org/set" {
			return "", errors.New("no such dataset: " + name)
		}
		return dir, nil
	}
	d, err := Open("org/set", Options{Subset: "main", Resolve: resolve})
	if err != nil || d.Len() != 1 || d.Name() != "set" {
		t.Errorf("%+v, %v", d, err)
	}
	for _, c := range []struct {
		path string
		opts Options
		want string
	}{
		{"org/other", Options{Resolve: resolve}, "no such dataset: org/other"},
		{"org/set", Options{}, "no such file"},
		{"", Options{}, "no path"},
	} {
		if _, err := Open(c.path, c.opts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Open(%q): %v, want %q", c.path, err, c.want)
		}
	}
	if d, err := Open(filepath.Join(dir, "main")+string(os.PathSeparator), Options{}); err != nil || d.Name() != "main" {
		t.Errorf("a directory with a separator at its end: %+v, %v", d, err)
	}
}
