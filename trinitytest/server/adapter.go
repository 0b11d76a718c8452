package server

import (
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"

	"github.com/trinity-go/trinity/engine"
)

// Adapters lists the adapters that the server has loaded.
func (f *Fake) Adapters() []string {
	if loader, ok := f.sampler.(engine.AdapterLoader); ok {
		return loader.Adapters()
	}
	return nil
}

// adapterAsked is what a request says of an adapter.
type adapterAsked struct {
	Name    string `json:"lora_name"`
	Path    string `json:"lora_path"`
	Stacked bool   `json:"is_3d_lora_weight"` // of vLLM
}

func (f *Fake) loadAdapter(ctx context.Context, q adapterAsked) error {
	f.mu.Lock()
	f.loads = append(f.loads, q.Name) // the weights keep their name
	f.mu.Unlock()
	if err := f.sampler.(engine.AdapterLoader).LoadAdapter(ctx, q.Name, q.Path, 0); err != nil {
		return err
	}
	return f.ScoreWith(ctx, q.Path)
}

func (f *Fake) dropAdapter(ctx context.Context, q adapterAsked) error {
	return f.sampler.(engine.AdapterLoader).DropAdapter(ctx, q.Name)
}

// adaptsExperts reports whether a PEFT directory has an adapter of experts.
func adaptsExperts(dir string) bool {
	var config struct {
		Experts []string `json:"target_parameters"`
	}
	text, err := os.ReadFile(filepath.Join(dir, "adapter_config.json"))
	return err == nil && json.Unmarshal(text, &config) == nil && len(config.Experts) > 0
}

// changeAdapter is an endpoint that changes the adapters and answers with done.
func (f *Fake) changeAdapter(
	change func(ctx context.Context, q adapterAsked) error, done func(http.ResponseWriter, error),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q adapterAsked
		switch {
		case !read(w, r, &q):
		case q.Name == "":
			refuse(w, http.StatusBadRequest, "lora_name: field required")
		default:
			done(w, change(r.Context(), q))
		}
	}
}
