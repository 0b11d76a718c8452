package dataset

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dirOf creates files that contain their own names. findSplit opens none of them.
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
		{[]string{"train-00001-of-00002.parquet", "train-00000-of-00002.parquet", "test-00000-of-00001.parquet"}, "train", "",
			"train-00000-of-00002.parquet train-00001-of-00002.parquet"},
		{[]string{"README.md", "data/train-00000-of-00001.parquet", "data/test-00000-of-00001.parquet"}, "test", "",
			"data/test-00000-of-00001.parquet"},
		{[]string{"main/train-0.parquet", "socratic/train-0.parquet"}, "train", "socratic", "socratic/train-0.parquet"},
		{[]string{"main/train-0.parquet", "socratic/train-0.parquet"}, "train", "",
			`in several directories (main/train-0.parquet, socratic/train-0.parquet): name one as subset_name`},
		{[]string{"main/train-0.parquet"}, "train", "other", `no subset "other": there is main/train-0.parquet; leave out subset_name`},
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
		{[]string{"train-00000-of-00003.jsonl", "train-00002-of-00003.jsonl"}, "", "",
			"files are missing: train-00001-of-00003.jsonl: copy them there"},
		{[]string{"data/train-00000-of-00002.jsonl"}, "", "", "files are missing: data/train-00001-of-00002.jsonl: copy"},
		{[]string{"en/0001-of-0002.csv", "en/0002-of-0002.csv"}, "", "en", "en/0001-of-0002.csv en/0002-of-0002.csv"},
		{[]string{"en/part-2-of-10.csv", "en/part-10-of-10.csv"}, "", "en", "en/part-1-of-10.csv, en/part-3-of-10.csv, en/part-4-of-10.csv, en/part-5-of-10.csv, en/part-6-of-10.csv, en/part-7-of-10.csv and 2 more"},
		{[]string{"train-00000-of-00001.jsonl", "test-00001-of-00002.jsonl"}, "", "", "train-00000-of-00001.jsonl"},
		{[]string{"train-00000-of-00001.jsonl", "test-00001-of-00002.jsonl"}, "test", "", "test-00000-of-00002.jsonl"},
		{[]string{"train_gen-00000-of-00001.parquet", "train_sft-00000-of-00002.parquet", "train_sft-00001-of-00002.parquet"}, "train_sft", "",
			"train_sft-00000-of-00002.parquet train_sft-00001-of-00002.parquet"},
		{[]string{"a-00000-of-00001.jsonl", "b-00000-of-00002.jsonl"}, "", "", "files are missing: b-00001-of-00002.jsonl"},
		{[]string{"2-of-3/train.jsonl"}, "", "", "2-of-3/train.jsonl"},
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

// The files of a directory of save_to_disk are those that its state.json lists.
func TestSavedToDisk(t *testing.T) {
	const state = `{"_data_files": [{"filename": "data-00000-of-00002.arrow"}, {"filename": "data-00001-of-00002.arrow"}], "_split": "train"}`
	for _, c := range []struct {
		state string
		files []string
		want  string // files, or part of the error
	}{
		{state, []string{"data-00000-of-00002.arrow", "data-00001-of-00002.arrow"}, "data-00000-of-00002.arrow data-00001-of-00002.arrow"},
		{state, []string{"data-00000-of-00003.arrow", "data-00000-of-00002.arrow", "data-00001-of-00002.arrow"},
			"data-00000-of-00002.arrow data-00001-of-00002.arrow"},
		{state, []string{"data-00001-of-00002.arrow"}, "files are missing: train/data-00000-of-00002.arrow: copy"},
		{`{"_data_files": [{"filename": "dataset.arrow"}, {"filename": "more.arrow"}]}`, []string{"dataset.arrow"},
			"files are missing: train/more.arrow: copy"},
		{`{"_data_files": [{"filename": "../a.arrow"}]}`, []string{"a.arrow"}, "files are missing: a.arrow"},
		{`{"epoch": 1}`, []string{"a.arrow", "b.arrow"}, "a.arrow b.arrow"},
		{`{`, []string{"a.arrow"}, "state.json: unexpected end of JSON input"},
		{`[]`, []string{"a.jsonl"}, "a.jsonl"},
	} {
		files := map[string]string{"train/state.json": c.state, "test/state.json": `{"_data_files": [{"filename": "gone.arrow"}]}`}
		for _, f := range c.files {
			files["train/"+f] = ""
		}
		got, err := findSplit(write(t, files), "train", "")
		for i := range got {
			got[i] = filepath.Base(got[i])
		}
		if text := strings.Join(got, " ") + fmt.Sprint(err); text != c.want+"<nil>" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%v with %s: %v, %v; want %s", c.files, c.state, got, err, c.want)
		}
	}
}

func TestShardsFollowOneAnother(t *testing.T) {
	d, err := Open(t.Context(), dirOf(t, "data/train-00000-of-00002.jsonl", "data/train-00001-of-00002.jsonl", "data/test.jsonl"),
		Options{Split: "train"})
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
	d, err := Open(t.Context(), "org/set", Options{Subset: "main", Resolve: resolve})
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
		if _, err := Open(t.Context(), c.path, c.opts); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("Open(%q): %v, want %q", c.path, err, c.want)
		}
	}
	if d, err := Open(t.Context(), filepath.Join(dir, "main")+string(os.PathSeparator), Options{}); err != nil || d.Name() != "main" {
		t.Errorf("a directory with a separator at its end: %+v, %v", d, err)
	}
}
