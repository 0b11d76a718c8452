package served_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/model/safetensors"
	"github.com/trinity-go/trinity/trinitytest/server"
	"github.com/trinity-go/trinity/weights"
)

// rewrite changes the tensors of a model directory, whose numbers are given as well.
func rewrite(t *testing.T, dir string, do func(all []safetensors.Entry, numbers [][]float32) []safetensors.Entry) {
	t.Helper()
	path := filepath.Join(dir, safetensors.SingleName)
	f, err := safetensors.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []safetensors.Entry
	var numbers [][]float32
	for i, name := range f.Names() {
		tensor, _ := f.Tensor(name)
		numbers = append(numbers, make([]float32, tensor.Len()))
		if err := tensor.Range(numbers[i], 0); err != nil {
			t.Fatal(err)
		}
		all = append(all, safetensors.Float32s(name, tensor.Shape, numbers[i]))
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := safetensors.Write(path, do(all, numbers), nil); err != nil {
		t.Fatal(err)
	}
}

// Files that are not those of the servers' model are given to no server, which might end of them. One line
// names the tensor.
func TestFilesAreCheckedBeforeAServerGetsThem(t *testing.T) {
	change := func(do func([]safetensors.Entry) []safetensors.Entry) func(t *testing.T, dir string) {
		return func(t *testing.T, dir string) {
			t.Helper()
			rewrite(t, dir, func(all []safetensors.Entry, _ [][]float32) []safetensors.Entry { return do(all) })
		}
	}
	each := func(name string, do func(e *safetensors.Entry)) func(t *testing.T, dir string) {
		return change(func(all []safetensors.Entry) []safetensors.Entry {
			for i := range all {
				if all[i].Name == name {
					do(&all[i])
				}
			}
			return all
		})
	}
	const norm = "model.norm.weight"
	for _, c := range []struct {
		name, want string
		change     func(t *testing.T, dir string)
	}{
		{"as it is", "", func(*testing.T, string) {}},
		{"missing", "lacks 1 tensors that the config demands: " + norm, change(func(all []safetensors.Entry) []safetensors.Entry {
			var left []safetensors.Entry
			for _, e := range all {
				if e.Name != norm {
					left = append(left, e)
				}
			}
			return left
		})},
		{"of none", "model.nose.weight", change(func(all []safetensors.Entry) []safetensors.Entry {
			return append(all, safetensors.Float32s("model.nose.weight", []int{1}, []float32{1}))
		})},
		{"shape", "tensor " + norm + " has shape [3]", each(norm, func(e *safetensors.Entry) {
			*e = safetensors.Float32s(norm, []int{3}, make([]float32, 3))
		})},
		{"type", "tensor " + norm + " has dtype U8", each(norm, func(e *safetensors.Entry) { *e = safetensors.Bytes(norm, make([]byte, 32)) })},
		{"cut off", "truncated", func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, safetensors.SingleName), 100); err != nil {
				t.Fatal(err)
			}
		}},
		{"another model", "RMSNormEps", func(t *testing.T, dir string) {
			path := filepath.Join(dir, "config.json")
			text, err := os.ReadFile(path)
			if err == nil {
				err = os.WriteFile(path, []byte(strings.Replace(string(text), `"rms_norm_eps":`, `"rms_norm_eps": 0.5, "was":`, 1)), 0o666)
			}
			if err != nil {
				t.Fatal(err)
			}
		}},
	} {
		for _, plugin := range []string{"vllm", "sglang"} {
			dir := filepath.Join(t.TempDir(), "version")
			if err := os.CopyFS(dir, os.DirFS(tiny)); err != nil {
				t.Fatal(err)
			}
			c.change(t, dir)
			fake := starts[plugin](t, own(t), server.Options{Vocab: vocab, MaxLen: 32, Develops: true})
			s := must(t, plugin, spec(fake.URL))
			err := s.(weights.Loader).LoadWeights(t.Context(), dir, 3)
			if c.want == "" {
				if err != nil || len(fake.Loads()) != 1 {
					t.Errorf("%s, %s: %v", plugin, c.name, err)
				}
				continue
			}
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "version 3 is given to no server: ") ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("%s, %s: %v, want %q", plugin, c.name, err, c.want)
			}
			if loads := fake.Loads(); len(loads) > 0 {
				t.Errorf("%s, %s: the server has loaded %q", plugin, c.name, loads)
			}
		}
	}
}
