package dataset

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"

	"github.com/trinity-go/trinity/internal/durable"
)

// numbered matches the file names of a split's shards: train-00001-of-00003.jsonl.
var numbered = regexp.MustCompile(`^(.*?)(\d{1,6})-of-(\d{1,6})(\D.*)$`)

// shardMark matches the hash that old versions of Hugging Face datasets append to a shard's
// number: -a3ecf92756993583.
var shardMark = regexp.MustCompile(`^-[0-9a-f]{16}`)

// shardSet is a set of shards with one name and count.
type shardSet struct{ before, of, after string }

// missingShards returns the shards that are absent from a numbered set such as
// train-00001-of-00008.
func missingShards(files []string) (missing []string) {
	sets, width := map[shardSet][]int{}, map[shardSet]int{}
	for _, f := range files {
		dir, name := path.Split(f)
		m := numbered.FindStringSubmatch(name)
		if m == nil {
			continue
		}
		s := shardSet{dir + m[1], m[3], shardMark.ReplaceAllString(m[4], "")}
		number, _ := strconv.Atoi(m[2]) // digits
		if sets[s] == nil || len(m[2]) < width[s] {
			width[s] = len(m[2])
		}
		sets[s] = append(sets[s], number)
	}
	for s, numbers := range sets {
		of, _ := strconv.Atoi(s.of)
		first := 0
		if !slices.Contains(numbers, 0) && slices.Contains(numbers, of) {
			first = 1
		}
		there := map[int]bool{}
		for _, n := range numbers {
			there[n] = true
		}
		for n := first; n < first+of; n++ {
			if !there[n] {
				missing = append(missing, fmt.Sprintf("%s%0*d-of-%s%s", s.before, width[s], n, s.of, s.after))
			}
		}
	}
	slices.Sort(missing)
	return missing
}

// lacking returns an error that names missing files, or nil. The rows of the other files alone
// would be another dataset.
func lacking(missing []string) error {
	if len(missing) == 0 {
		return nil
	}
	return fmt.Errorf("files are missing: %s: copy them there; to read a part, name its file as the path, or its files in %s "+
		"(configs, data_files)", shortList(missing), cardFile)
}

// savedFiles returns the Arrow files of a directory that save_to_disk lists in its state.json. All
// of them must exist. Without a state.json it returns all.
func savedFiles(dir string, files []string) ([]string, error) {
	if extension(files[0]) != ".arrow" {
		return files, nil
	}
	in := path.Dir(files[0])
	at := filepath.Join(dir, filepath.FromSlash(in), "state.json")
	text, err := durable.ReadRegular(at, maxRow)
	if errors.Is(err, fs.ErrNotExist) {
		return files, nil
	}
	if err != nil {
		return nil, err
	}
	var state struct {
		Files []struct{ Filename string } `json:"_data_files"`
	}
	if err := json.Unmarshal(text, &state); err != nil {
		return nil, fmt.Errorf("%s: %w", at, err)
	}
	if len(state.Files) == 0 {
		return files, nil
	}
	var listed, missing []string
	for _, f := range state.Files {
		name := path.Join(in, f.Filename)
		listed = append(listed, name)
		if !slices.Contains(files, name) {
			missing = append(missing, name)
		}
	}
	return listed, lacking(missing)
}
