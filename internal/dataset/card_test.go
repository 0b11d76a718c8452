package dataset

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// cardDir creates a directory with a card, and with files that contain their own names.
func cardDir(t *testing.T, card string, names ...string) string {
	t.Helper()
	files := map[string]string{}
	for _, n := range names {
		files[n] = fmt.Sprintf("{\"file\": %q}\n", n)
		if strings.HasSuffix(n, ".csv") {
			files[n] = "file\n" + n + "\n"
		}
	}
	if card != "" {
		files[cardFile] = card
	}
	return write(t, files)
}

// The files are those that Hugging Face datasets reads (testdata/record_cards.py).
func TestCardsAsRecorded(t *testing.T) {
	text, err := os.ReadFile("testdata/cards.json")
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct {
		Files               []string
		Card, Subset, Split string
		Rows                []string // nil where datasets refuses
	}
	if err := json.Unmarshal(text, &cases); err != nil {
		t.Fatal(err)
	}
	for _, c := range cases {
		d, err := Open(t.Context(), cardDir(t, c.Card, c.Files...), Options{Subset: c.Subset, Split: c.Split})
		if err != nil {
			if c.Rows != nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("subset %q, split %q of %v with card\n%s\n%v, want %v", c.Subset, c.Split, c.Files, c.Card, err, c.Rows)
			}
			continue
		}
		var got []string
		for _, row := range all(t, d) {
			got = append(got, row["file"].(string))
		}
		if !slices.Equal(got, c.Rows) {
			t.Errorf("subset %q, split %q of %v with card\n%s\nrows %v, want %v", c.Subset, c.Split, c.Files, c.Card, got, c.Rows)
		}
	}
}

func TestCardErrors(t *testing.T) {
	const two = "- config_name: en\n  data_files: en.jsonl\n- config_name: fr\n  data_files:\n  - {split: validation, path: [fr.jsonl]}\n  - {split: test, path: '*'}\n"
	for _, c := range []struct{ configs, subset, split, want string }{
		{two, "", "", "several subsets and none is the default: name one as subset_name: en, fr"},
		{two, "de", "", `no subset "de": README.md declares en, fr`},
		{two, "fr", "", `subset fr has no split "train": README.md declares validation, test`},
		{two, "fr", "test", `split "test" is there in two formats (de.csv and en.jsonl)`},
		{"- config_name: x\n  data_files: no.jsonl\n", "", "", `subset x, split train: path "no.jsonl": no such file of a known format`},
		{"- config_name: x\n  data_files: no*.jsonl\n", "", "",
			`no file of a known format matches no*.jsonl: there is de.csv, en.jsonl, fr.jsonl`},
		{"- config_name: x\n  data_files: ../../*.jsonl\n", "", "", `path "../../*.jsonl" is outside of the dataset`},
		{"- config_name: x\n  data_files: /en.jsonl\n", "", "", `path "/en.jsonl" is outside of the dataset`},
		{"- config_name: x\n  data_dir: ..\n", "", "", `data_dir ".." is outside of the dataset`},
		{"- config_name: x\n  data_files: '**.jsonl'\n", "", "", "** is a whole part of a path"},
		{"- config_name: x\n  data_files: '[z-a].jsonl'\n", "", "", `path "[z-a].jsonl": error parsing regexp: invalid character class range`},
		{"- config_name: x\n  sep: ;\n  data_files: de.csv\n", "", "", "README.md sets sep for subset x, which is not supported"},
		{"- config_name: x\n- config_name: x\n", "", "", `config_name "x": every subset has a name of its own`},
		{"- config_name: x\n  data_files:\n  - path: en.jsonl\n", "", "", "README.md:5: subset x: data_files: want a path"},
		{"- config_name: x\n  data_files: {train: en.jsonl}\n", "", "",
			"README.md:4: subset x: data_files: want a path, a list of paths, or a list of {split: …, path: …}"},
		{"- config_name: x\n  data_files:\n  - {split: train, path: {a: b}}\n", "", "", "README.md:5: subset x: data_files: want a path"},
		{"- config_name: x\n  data_files:\n  - {split: train}\n  - {split: test, path: {a: b}}\n", "", "",
			"README.md:5: subset x: data_files: want a path"},
		{"- config_name: x\n  data_files: []\n", "", "", "README.md:4: subset x: data_files: want a path"},
		{"- config_name: x\n  data_files: &it\n  - {split: train, path: no.jsonl}\n- config_name: y\n  data_files: *it\n", "y", "",
			`subset y, split train: path "no.jsonl": no such file`},
		{"- config_name: x\n  data_files:\n", "", "", "in two formats"},
		{"- config_name: x\n  data_dir: none\n", "", "", `README.md: subset x: data_dir "none" is not there`},
	} {
		_, err := Open(t.Context(), cardDir(t, "---\nconfigs:\n"+c.configs+"---\n", "en.jsonl", "fr.jsonl", "de.csv"),
			Options{Subset: c.subset, Split: c.split})
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("subset %q, split %q of\n%s%v\nwant %s", c.subset, c.split, c.configs, err, c.want)
		}
	}
}

// Patterns are relative to data_dir, and may go deeper than maxDepth.
func TestDataDirOfPatterns(t *testing.T) {
	dir := cardDir(t, "---\nconfigs:\n- config_name: x\n  data_dir: a/b\n  data_files: c/d/e/f/*.jsonl\n---", "a/b/c/d/e/f/g.jsonl",
		"c/d/e/f/h.jsonl")
	files, err := findSplit(dir, "", "")
	if want := []string{filepath.Join(dir, "a", "b", "c", "d", "e", "f", "g.jsonl")}; err != nil || !slices.Equal(files, want) {
		t.Errorf("got %v, %v; want %v", files, err, want)
	}
}

// A large file that two patterns match is read twice.
func TestFileThatMatchesTwice(t *testing.T) {
	dir := cardDir(t, "---\nconfigs:\n- config_name: x\n  data_files: [a.jsonl, '*.jsonl']\n---\n", "a.jsonl", "b.jsonl")
	scratch := t.TempDir()
	for range 2 {
		d, err := Open(t.Context(), dir, Options{Scratch: scratch, held: 1})
		if err != nil {
			t.Fatal(err)
		}
		if rows := all(t, d); len(rows) != 3 || rows[1]["file"] != "a.jsonl" || rows[2]["file"] != "b.jsonl" {
			t.Errorf("rows %v", rows)
		}
	}
}

// If a pattern would match a missing shard, that is an error. A path that names one shard is a
// choice.
func TestShardsOfPatterns(t *testing.T) {
	for pattern, missing := range map[string]string{
		"train-*":                    `path "train-*": files are missing: d/train-00001-of-00003.jsonl: copy`,
		"**/*.jsonl":                 `path "**/*.jsonl": files are missing: d/train-00001-of-00003.jsonl: copy`,
		"train-0000[02]*":            "",
		"train-00002-of-*":           "",
		"train-00000-of-00003.jsonl": "",
	} {
		dir := cardDir(t, "---\nconfigs:\n- config_name: x\n  data_dir: d\n  data_files: '"+pattern+"'\n---\n", "d/train-00000-of-00003.jsonl",
			"d/train-00002-of-00003.jsonl")
		if _, err := Open(t.Context(), dir, Options{}); missing == "" && err != nil ||
			missing != "" && (err == nil || !strings.Contains(err.Error(), missing)) {
			t.Errorf("%s: %v, want %q", pattern, err, missing)
		}
	}
}

func FuzzCard(f *testing.F) {
	f.Add([]byte("---\nconfigs:\n- config_name: x\n  data_files:\n  - split: train\n    path: [a, '**/b?[!c]*']\n---\n"))
	f.Fuzz(func(t *testing.T, card []byte) {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, cardFile), card, 0o600); err != nil {
			t.Fatal(err)
		}
		subsets, err := readCard(dir)
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("an error of several lines: %v", err)
		}
		for _, s := range subsets {
			for _, split := range s.Files {
				_, _ = split.match(s.Dir, []string{"a", "d/b1xy"})
			}
		}
	})
}
