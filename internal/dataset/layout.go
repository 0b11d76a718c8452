package dataset

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// texts lists the formats that may be compressed.
var texts = []string{".jsonl", ".ndjson", ".json", ".csv", ".tsv"}

// extensions lists all formats; an extension precedes its own suffixes.
var extensions = func() (all []string) {
	for _, compression := range []string{".gz", ".zst", ""} {
		for _, t := range texts {
			all = append(all, t+compression)
		}
	}
	return append(all, ".parquet", ".arrow")
}()

// extension returns the format's extension of a file name, or any other extension it has.
func extension(name string) string {
	lower := strings.ToLower(name)
	for _, e := range extensions {
		if strings.HasSuffix(lower, e) {
			return e
		}
	}
	return filepath.Ext(lower)
}

// formatOf returns the extension of a file name in two parts, such as ".jsonl" and ".gz".
func formatOf(name string) (format, compression string) {
	format = extension(name)
	for _, c := range []string{".gz", ".zst"} {
		if base, ok := strings.CutSuffix(format, c); ok {
			return base, c
		}
	}
	return format, ""
}

// IsFile reports whether a file name has the extension of a known format.
func IsFile(name string) bool { return slices.Contains(extensions, extension(name)) }

// splitWords lists synonyms of splits in file names, as in Hugging Face datasets.
var splitWords = map[string][]string{
	"train":      {"training"},
	"validation": {"valid", "val", "dev"},
	"test":       {"testing", "eval", "evaluation"},
}

// maxDepth bounds the search for files without a card, in directories below the dataset's.
const (
	maxDepth = 4
	anyDepth = 1 << 10
)

// findSplit returns the files of a split: those that the dataset's card declares, else those of
// the directory layout.
func findSplit(dir, split, subset string) ([]string, error) {
	if split == "" {
		split = "train"
	}
	subsets, err := readCard(dir)
	if err != nil {
		return nil, err
	}
	var found []string
	if len(subsets) > 0 {
		found, err = declaredFiles(dir, subsets, split, subset)
	} else {
		found, err = laidOut(dir, split, subset)
	}
	for i, f := range found {
		found[i] = filepath.Join(dir, filepath.FromSlash(f))
	}
	return found, err
}

// declaredFiles returns the files of a split of a subset that the card declares. If the card names
// only a directory, the layout of that directory decides.
func declaredFiles(dir string, subsets []declared, split, name string) ([]string, error) {
	subset, err := pick(dir, subsets, name)
	if err != nil {
		return nil, err
	}
	if len(subset.Files) > 0 {
		files, err := subset.files(dir, split)
		if err != nil {
			return nil, err
		}
		return files, oneFormat(dir, split, files)
	}
	base := path.Clean(subset.Dir)
	if !filepath.IsLocal(filepath.FromSlash(base)) {
		return nil, fmt.Errorf("dataset %s: %s: subset %s: data_dir %q is outside of the dataset", dir, cardFile, subset.Name, subset.Dir)
	}
	files, err := laidOut(filepath.Join(dir, filepath.FromSlash(base)), split, "")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("dataset %s: %s: subset %s: data_dir %q is not there", dir, cardFile, subset.Name, subset.Dir)
	}
	for i, f := range files {
		files[i] = path.Join(base, f)
	}
	return files, err
}

// laidOut returns the files of a split in order of their names. Layouts: train.jsonl,
// train-00000-of-00002.parquet, data/train-*.parquet, train/0000.parquet, and each of them below a
// directory named like the subset. Where no file names any split, all are train. A subset called
// default is all files, unless some are named so.
func laidOut(dir, split, subset string) ([]string, error) {
	files, err := dataFiles(dir, maxDepth)
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("dataset %s: no files in it: want one of %s", dir, strings.Join(extensions, " "))
	}
	if subset != "" {
		inSubset := slices.DeleteFunc(slices.Clone(files), func(f string) bool { return !isSubset(f, subset) })
		if len(inSubset) == 0 && subset != "default" {
			return nil, fmt.Errorf("dataset %s: no subset %q: there is %s; leave out subset_name", dir, subset, shortList(files))
		}
		if len(inSubset) > 0 {
			files = inSubset
		}
	}
	found := ofSplit(files, split)
	if len(found) == 0 {
		return nil, fmt.Errorf("dataset %s: no split %q: there is %s", dir, split, shortList(files))
	}
	if found, err = oneDataset(dir, split, found); err != nil {
		return nil, err
	}
	if found, err = savedFiles(dir, found); err == nil {
		err = lacking(missingShards(found))
	}
	if err != nil {
		return nil, fmt.Errorf("dataset %s: %w", dir, err)
	}
	return found, nil
}

// dataFiles lists the files of known formats below dir, with slashes and relative to it, sorted.
func dataFiles(dir string, depth int) ([]string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(dir, p)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		hidden := rel != "." && strings.HasPrefix(e.Name(), ".")
		if e.IsDir() {
			if hidden || strings.Count(rel, "/") >= depth {
				return fs.SkipDir
			}
			return nil
		}
		if !hidden && IsFile(rel) && !isMetadata(e.Name()) {
			files = append(files, rel)
		}
		return nil
	})
	slices.Sort(files)
	return files, err
}

// isMetadata reports whether a file is no data: one of a hub repository, of save_to_disk, or of
// the cache of Hugging Face datasets, which also has results of maps and filters (cache-*.arrow).
func isMetadata(name string) bool {
	return name == "dataset_infos.json" || name == "dataset_info.json" || name == "dataset_dict.json" || name == "state.json" ||
		strings.HasPrefix(name, "cache-") && strings.HasSuffix(name, ".arrow")
}

// isSubset reports whether a directory of the path is named like the subset, or the file's name
// begins with it.
func isSubset(file, subset string) bool {
	parts := strings.Split(file, "/")
	name := parts[len(parts)-1]
	if slices.Contains(parts[:len(parts)-1], subset) {
		return true
	}
	rest, ok := strings.CutPrefix(name, subset)
	return ok && rest != "" && strings.ContainsRune("-_.", rune(rest[0]))
}

// ofSplit returns the files of a split: those with the split in their names, else those in
// directories with it, else all files if none names a split and the split is train.
func ofSplit(files []string, split string) []string {
	words := append([]string{split}, splitWords[split]...)
	for _, part := range []func(string) string{path.Base, path.Dir} {
		named := slices.DeleteFunc(slices.Clone(files), func(f string) bool { return !hasWord(part(f), words) })
		if len(named) > 0 {
			return named
		}
	}
	if split != "train" {
		return nil
	}
	for other, more := range splitWords {
		if slices.ContainsFunc(files, func(f string) bool { return hasWord(f, append([]string{other}, more...)) }) {
			return nil
		}
	}
	return files
}

// hasWord reports whether text contains one of the words between separators.
func hasWord(text string, words []string) bool {
	for _, w := range words {
		if regexp.MustCompile(`(?i)(^|[-._ 0-9/])` + regexp.QuoteMeta(w) + `([-._ 0-9/]|$)`).MatchString(text) {
			return true
		}
	}
	return false
}

// oneDataset refuses files of several subsets or formats, because a split would mix them. Files
// directly in the directory win over those further down.
func oneDataset(dir, split string, files []string) ([]string, error) {
	if top := slices.DeleteFunc(slices.Clone(files), func(f string) bool { return strings.Contains(f, "/") }); len(top) > 0 {
		files = top
	}
	for _, f := range files[1:] {
		if path.Dir(f) != path.Dir(files[0]) {
			return nil, fmt.Errorf("dataset %s: split %q is in several directories (%s): name one as subset_name", dir, split, shortList(files))
		}
	}
	return files, oneFormat(dir, split, files)
}

func oneFormat(dir, split string, files []string) error {
	for _, f := range files[1:] {
		if extension(f) != extension(files[0]) {
			return fmt.Errorf("dataset %s: split %q is there in two formats (%s and %s): name one file as the path", dir, split, files[0], f)
		}
	}
	return nil
}

// shortList returns the first files of a list, for errors.
func shortList(files []string) string {
	const most = 6
	if len(files) > most {
		return strings.Join(files[:most], ", ") + fmt.Sprintf(" and %d more", len(files)-most)
	}
	return strings.Join(files, ", ")
}
