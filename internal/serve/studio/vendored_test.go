package studio

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The libraries of the page are those that vendor.json names, whole and unchanged.
func TestLibrariesHaveTheirChecksums(t *testing.T) {
	dir := filepath.Join("page", "vendor")
	data, err := os.ReadFile(filepath.Join(dir, "vendor.json"))
	if err != nil {
		t.Fatal(err)
	}
	var list struct {
		Packages []struct {
			Files []struct{ To, SHA256 string }
		}
	}
	if err := json.Unmarshal(data, &list); err != nil {
		t.Fatal(err)
	}
	named := []string{"preact.js", "preact.d.ts", "vendor.json"} // ours
	for _, p := range list.Packages {
		for _, f := range p.Files {
			named = append(named, f.To)
			data, err := os.ReadFile(filepath.Join(dir, f.To))
			if err != nil {
				t.Fatal(err)
			}
			if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != f.SHA256 {
				t.Errorf("%s is not the file that vendor.json describes: go generate ./internal/serve/studio", f.To)
			}
		}
	}
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !slices.Contains(named, f.Name()) {
			t.Errorf("vendor.json does not name %s", f.Name())
		}
	}
}

// The page is part of every binary. The Chinese of the program's own sentences and keys is apart: only a Chinese page loads it.
func TestPageIsSmall(t *testing.T) {
	const limit, chinese = 536 << 10, 300 << 10
	sizes := map[bool]int{}
	for name, text := range pageFiles(t) {
		sizes[strings.HasPrefix(name, "zh/")] += len(text)
		if strings.Contains(text, "innerHTML") && !strings.HasPrefix(name, "vendor") {
			t.Errorf("%s sets innerHTML: what a model wrote is text", name)
		}
	}
	if sizes[false] > limit || sizes[true] > chinese {
		t.Errorf("the page has %d bytes and its Chinese %d, more than %d or %d", sizes[false], sizes[true], limit, chinese)
	}
}

var (
	wordLine = regexp.MustCompile(`(?m)^  "([^"]+)": (.*),$`)
	wordUse  = regexp.MustCompile(`\bt\("([^"]+)"`)
	hole     = regexp.MustCompile(`\{\w+\}`)
)

// Both languages have the same strings, with the same parameters, and all that the pages use.
func TestLanguagesHaveTheSameWords(t *testing.T) {
	files := pageFiles(t)
	english, chinese, ok := strings.Cut(files["words.js"], "const zh = {")
	if !ok {
		t.Fatal("words.js has no Chinese table")
	}
	en, zh := words(t, english), words(t, chinese)
	for key, text := range en {
		if other, ok := zh[key]; !ok {
			t.Errorf("words.js: %s lacks in Chinese", key)
		} else if got, want := holes(other), holes(text); !slices.Equal(got, want) {
			t.Errorf("words.js: %s has the parameters %v in English and %v in Chinese", key, want, got)
		}
	}
	for key := range zh {
		if _, ok := en[key]; !ok {
			t.Errorf("words.js: %s lacks in English", key)
		}
	}
	for name, text := range files {
		for _, use := range wordUse.FindAllStringSubmatch(text, -1) {
			if _, ok := en[use[1]]; !ok && !strings.HasSuffix(use[1], ".") && name != "words.js" {
				t.Errorf("%s uses %q, which words.js lacks", name, use[1])
			}
		}
	}
}

func words(t *testing.T, table string) map[string]string {
	out := map[string]string{}
	for _, line := range wordLine.FindAllStringSubmatch(table, -1) {
		if _, twice := out[line[1]]; twice {
			t.Errorf("words.js: %s is there twice", line[1])
		}
		out[line[1]] = line[2]
	}
	return out
}

func holes(text string) []string {
	found := hole.FindAllString(text, -1)
	slices.Sort(found)
	return slices.Compact(found)
}

// pageFiles returns the files of the page by their paths.
func pageFiles(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	err := filepath.WalkDir("page", func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		name, _ := filepath.Rel("page", path)
		out[filepath.ToSlash(name)] = string(data)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
