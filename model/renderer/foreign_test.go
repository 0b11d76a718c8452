package renderer

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// The tokenizer, the template and the stop tokens of a model do not depend on the engine that computes it.
func TestRendererOfAModelThatTheEmbeddedEngineDoesNotCompute(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"tokenizer.json", "tokenizer_config.json"} {
		data, err := os.ReadFile(filepath.Join("testdata", "tokenizer", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	config := `{"model_type":"gpt_oss","hidden_size":4,"num_hidden_layers":1,"num_attention_heads":2,"vocab_size":520,"eos_token_id":[3,5]}`
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o666); err != nil {
		t.Fatal(err)
	}
	r, err := Open(dir, Options{Template: templateSource(t, "smollm3_like")})
	if err != nil {
		t.Fatal(err)
	}
	for _, stop := range []int32{3, 5} {
		if !slices.Contains(r.StopTokens(), stop) {
			t.Errorf("stop tokens %v lack %d", r.StopTokens(), stop)
		}
	}
}
