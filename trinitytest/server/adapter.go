package server

import (
	"context"
	"net/http"

	"github.com/trinity-go/trinity/engine"
)

// Adapters lists the adapters that the server has loaded.
func (f *Fake) Adapters() []string {
	if loader, ok := f.sampler.(engine.AdapterLoader); ok {
		return loader.Adapters()
	}
	return nil
}

func (f *Fake) loadAdapter(ctx context.Context, name, path string) error {
	f.mu.Lock()
	f.loads = append(f.loads, name) // the weights keep their name
	f.mu.Unlock()
	if err := f.sampler.(engine.AdapterLoader).LoadAdapter(ctx, name, path, 0); err != nil {
		return err
	}
	return f.ScoreWith(ctx, path)
}

func (f *Fake) dropAdapter(ctx context.Context, name, _ string) error {
	return f.sampler.(engine.AdapterLoader).DropAdapter(ctx, name)
}

// changeAdapter is an endpoint that changes the adapters and answers with done.
func (f *Fake) changeAdapter(
	change func(ctx context.Context, name, path string) error, done func(http.ResponseWriter, error),
) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			LoraName string `json:"lora_name"`
			LoraPath string `json:"lora_path"`
		}
		switch {
		case !read(w, r, &q):
		case q.LoraName == "":
			refuse(w, http.StatusBadRequest, "lora_name: field required")
		default:
			done(w, change(r.Context(), q.LoraName, q.LoraPath))
		}
	}
}
