package hub

import (
	"context"
	"fmt"
	"os"
)

// Resolve returns the local path of a model: name itself if it exists, else the directory into
// which [Pull] fetches the hub's model of that name. say may be nil.
func Resolve(ctx context.Context, name string, say func(line string)) (path string, err error) {
	if name == "" {
		return "", fmt.Errorf("model.model_path is not set: name a directory, a GGUF file or a hub model org/name")
	}
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	if !IsName(name) {
		return "", fmt.Errorf("model %s: no such file or directory", name)
	}
	dir, err := Pull(ctx, name, Options{Say: say})
	if err != nil {
		return "", fmt.Errorf("model %s: %w", name, err)
	}
	return dir, nil
}
