package dataset

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"regexp"
	"strings"

	"go.yaml.in/yaml/v4"

	"github.com/trinity-go/trinity/internal/durable"
)

// cardFile declares the files of a dataset's subsets and splits, in the YAML between its first two
// lines "---", under configs.
const cardFile = "README.md"

// declared is a subset as a card declares it, by the rules of Hugging Face datasets.
type declared struct {
	Name    string    `yaml:"config_name"`
	Dir     string    `yaml:"data_dir"` // "" is the dataset's directory
	Written yaml.Node `yaml:"data_files"`
	Files   patterns  `yaml:"-"` // as written
	Default bool      `yaml:"default"`

	Reading map[string]any `yaml:",inline"` // all other keys
}

// patterns holds the file patterns of each split; none if the directory layout decides.
type patterns []splitPatterns

type splitPatterns struct {
	Split string
	Paths oneOrMore `yaml:"path"`
}

type oneOrMore []string

func (o *oneOrMore) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind != yaml.SequenceNode {
		*o = make(oneOrMore, 1)
		return node.Decode(&(*o)[0])
	}
	return node.Decode((*[]string)(o))
}

var splitName = regexp.MustCompile(`^\w+(\.\w+)*$`)

// read decodes a path or a list of paths (of the split train), or a list of splits with their
// paths.
func (p *patterns) read(node *yaml.Node) error {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	if node.IsZero() || node.Tag == "!!null" {
		return nil
	}
	var err error
	if node.Kind == yaml.SequenceNode && len(node.Content) > 0 && node.Content[0].Kind == yaml.MappingNode {
		err = node.Decode((*[]splitPatterns)(p))
	} else {
		*p = patterns{{Split: "train"}}
		err = node.Decode(&(*p)[0].Paths)
	}
	wrong := errors.New("data_files: want a path, a list of paths, or a list of {split: …, path: …} with each split once")
	if err != nil {
		return wrong
	}
	seen := map[string]bool{}
	for _, s := range *p {
		if !splitName.MatchString(s.Split) || len(s.Paths) == 0 || seen[s.Split] {
			return wrong
		}
		seen[s.Split] = true
	}
	return nil
}

// readCard returns the subsets that a dataset's card declares, in order; none without a card or a
// declaration.
func readCard(dir string) ([]declared, error) {
	text, err := durable.ReadRegular(filepath.Join(dir, cardFile), maxRow)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("dataset: %w", err)
	}
	var card struct {
		Configs []declared `yaml:"configs"`
	}
	if err := yaml.Unmarshal(frontMatter(text), &card); err != nil {
		return nil, fmt.Errorf("%s: the YAML at its top: %s", filepath.Join(dir, cardFile), strings.Join(strings.Fields(err.Error()), " "))
	}
	seen := map[string]bool{}
	for i := range card.Configs {
		c := &card.Configs[i]
		if c.Name == "" || seen[c.Name] {
			return nil, fmt.Errorf("%s: configs: config_name %q: every subset has a name of its own", filepath.Join(dir, cardFile), c.Name)
		}
		if err := c.Files.read(&c.Written); err != nil {
			return nil, fmt.Errorf("%s:%d: subset %s: %w", filepath.Join(dir, cardFile), c.Written.Line, c.Name, err)
		}
		seen[c.Name] = true
	}
	return card.Configs, nil
}

// frontMatter returns the text between a first line "---" and the next. An empty line stands for
// the first, so that line numbers are those of the file.
func frontMatter(text []byte) []byte {
	text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	rest, ok := bytes.CutPrefix(text, []byte("---\n"))
	if !ok {
		return nil
	}
	inner, _, ok := bytes.Cut(append([]byte("\n"), rest...), []byte("\n---\n"))
	if !ok {
		if inner, ok = bytes.CutSuffix(inner, []byte("\n---")); !ok {
			return nil
		}
	}
	return append(inner, '\n')
}

// pick returns the subset of that name. Without a name it is the only one, the one called default,
// or the one with default: true.
func pick(dir string, subsets []declared, name string) (*declared, error) {
	var chosen []*declared
	var names []string
	for i := range subsets {
		s := &subsets[i]
		names = append(names, s.Name)
		if name == s.Name || name == "" && (len(subsets) == 1 || s.Name == "default" || s.Default) {
			chosen = append(chosen, s)
		}
	}
	switch {
	case len(chosen) == 1:
		return chosen[0], nil
	case name != "":
		return nil, fmt.Errorf("dataset %s: no subset %q: %s declares %s", dir, name, cardFile, shortList(names))
	case len(chosen) > 1:
		return nil, fmt.Errorf("dataset %s: %s declares several default subsets (%s and %s): name one as subset_name",
			dir, cardFile, chosen[0].Name, chosen[1].Name)
	}
	return nil, fmt.Errorf("dataset %s: several subsets and none is the default: name one as subset_name: %s", dir, shortList(names))
}

// readings lists the keys of a card that say how to read files. Ignoring them would give other
// rows.
var readings = []string{
	"sep", "delimiter", "header", "names", "column_names", "skiprows", "quotechar", "quoting", "encoding", "field", "filters", "columns",
}

// files returns the files of a split of the subset, relative to the dataset's directory, in the
// order of the patterns and, for each pattern, of the names. A file that two patterns match comes
// twice, as in Hugging Face datasets.
func (d *declared) files(dir, split string) ([]string, error) {
	for _, key := range readings {
		if _, ok := d.Reading[key]; ok {
			return nil, fmt.Errorf("dataset %s: %s sets %s for subset %s, which is not supported: convert the files, and name them as the path",
				dir, cardFile, key, d.Name)
		}
	}
	all, err := dataFiles(dir, anyDepth)
	if err != nil {
		return nil, err
	}
	var splits []string
	for _, s := range d.Files {
		splits = append(splits, s.Split)
		if s.Split != split {
			continue
		}
		files, err := s.match(d.Dir, all)
		if err != nil {
			return nil, fmt.Errorf("dataset %s: %s: subset %s, split %s: %w", dir, cardFile, d.Name, split, err)
		}
		return files, nil
	}
	return nil, fmt.Errorf("dataset %s: subset %s has no split %q: %s declares %s", dir, d.Name, split, cardFile, shortList(splits))
}
