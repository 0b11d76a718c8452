package served

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/model/safetensors"
	"github.com/trinity-go/trinity/model"
)

// Versions of a model that the embedded engine does not compute are compared by the tensors of its files.
func TestVersionsOfAForeignModelHaveItsTensors(t *testing.T) {
	const config = `{"model_type":"lfm3","hidden_size":4,"num_hidden_layers":1,"num_attention_heads":2,"num_key_value_heads":1,` +
		`"intermediate_size":8,"vocab_size":6,"max_position_embeddings":16}`
	write := func(conv ...int) string {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o666); err != nil {
			t.Fatal(err)
		}
		entries := []safetensors.Entry{safetensors.Float32s("model.embed_tokens.weight", []int{6, 4}, make([]float32, 24))}
		if conv != nil {
			entries = append(entries, safetensors.Float32s("model.layers.0.conv.conv.weight", conv, make([]float32, conv[0]*conv[2])))
		}
		if err := safetensors.Write(filepath.Join(dir, "model.safetensors"), entries, nil); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	cfg, err := model.ReadConfig(write(4, 1, 3))
	if err != nil {
		t.Fatal(err)
	}
	check := filesOf(cfg, false)
	for _, c := range []struct {
		conv []int
		want string
	}{
		{[]int{4, 1, 3}, ""},
		{[]int{4, 1, 4}, "tensor model.layers.0.conv.conv.weight has shape [4 1 4], and [4 1 3] in the model of the servers"},
		{nil, "tensor model.layers.0.conv.conv.weight is missing"},
	} {
		err := check(write(c.conv...))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("a version with %v: error %v, want %q", c.conv, err, c.want)
		}
	}
}
