package safetensors

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// The names under which transformers stores a model's weights.
const (
	SingleName = "model.safetensors"
	IndexName  = "model.safetensors.index.json"
)

// Dir holds the weights of a model directory: one file or the shards of an index.
type Dir struct {
	files   []*File
	tensors map[string]Tensor
	names   []string
}

// OpenDir opens dir/model.safetensors or, if absent, the shards of
// dir/model.safetensors.index.json. The error is fs.ErrNotExist if there is neither.
func OpenDir(dir string) (*Dir, error) {
	d := &Dir{tensors: map[string]Tensor{}}
	single := filepath.Join(dir, SingleName)
	if _, err := os.Stat(single); err == nil {
		if err := d.add(single); err != nil {
			return nil, err
		}
		return d, nil
	}
	weights, err := readIndex(filepath.Join(dir, IndexName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("safetensors: %s holds neither %s nor %s: %w", dir, SingleName, IndexName, fs.ErrNotExist)
	} else if err != nil {
		return nil, fmt.Errorf("safetensors: %s: %w", filepath.Join(dir, IndexName), err)
	}
	shards := map[string]bool{}
	for _, shard := range weights {
		shards[shard] = true
	}
	for _, shard := range slices.Sorted(maps.Keys(shards)) {
		if err := d.add(filepath.Join(dir, shard)); err != nil {
			d.Close()
			return nil, err
		}
	}
	if err := d.check(weights); err != nil {
		d.Close()
		return nil, fmt.Errorf("safetensors: %s: %w", filepath.Join(dir, IndexName), err)
	}
	return d, nil
}

// Names lists all tensors, shard by shard.
func (d *Dir) Names() []string { return slices.Clone(d.names) }

// Tensor returns the tensor of a name; ok is false if there is none.
func (d *Dir) Tensor(name string) (t Tensor, ok bool) {
	t, ok = d.tensors[name]
	return t, ok
}

// Path returns the path of the file that holds t.
func (t Tensor) Path() string { return t.path }

// Close closes all files.
func (d *Dir) Close() error {
	var errs []error
	for _, f := range d.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}

func (d *Dir) add(path string) error {
	f, err := Open(path)
	if err != nil {
		return err
	}
	d.files = append(d.files, f)
	for _, name := range f.names {
		if earlier, ok := d.tensors[name]; ok {
			return fmt.Errorf("safetensors: %s: tensor %s is also in %s", path, name, earlier.path)
		}
		d.tensors[name] = f.tensors[name]
		d.names = append(d.names, name)
	}
	return nil
}

func (d *Dir) check(weights map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(weights)) {
		t, ok := d.tensors[name]
		if !ok || filepath.Base(t.path) != weights[name] {
			return fmt.Errorf("tensor %s is not in %s, where the index places it", name, weights[name])
		}
	}
	return nil
}

// readIndex returns the map from tensor name to shard file. Shards must lie beside the index.
func readIndex(path string) (map[string]string, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var index struct {
		WeightMap map[string]string `json:"weight_map"`
	}
	if err := json.Unmarshal(text, &index); err != nil {
		return nil, err
	}
	if len(index.WeightMap) == 0 {
		return nil, fmt.Errorf("weight_map is missing or empty")
	}
	for name, shard := range index.WeightMap {
		if shard == "" || strings.ContainsAny(shard, `/\`) || !filepath.IsLocal(shard) || !strings.HasSuffix(shard, ".safetensors") {
			return nil, fmt.Errorf("tensor %s is placed in %q; expected the name of a .safetensors file beside the index", name, shard)
		}
	}
	return index.WeightMap, nil
}
