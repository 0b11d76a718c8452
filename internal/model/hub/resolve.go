package hub

import (
	"context"
	"fmt"
	"os"
)

// Resolve returns the local path of a model: name itself if it exists, else the directory into
// which [Pull] fetches the hub's model of that name. say may be nil.
func Resolve(ctx context.Context, name string, say func(line string)) (path string, err error) {
	return resolve(ctx, name, Options{Say: say})
}

// ResolveText is Resolve without the weights: configuration, tokenizer and chat template alone.
func ResolveText(ctx context.Context, name string, say func(line string)) (path string, err error) {
	return resolve(ctx, name, Options{Say: say, NoWeights: true})
}

func resolve(ctx context.Context, name string, o Options) (path string, err error) {
	if name == "" {
		return "", fmt.Errorf("model.model_path is not set: name a directory, a GGUF file or a hub model org/name")
	}
	if _, err := os.Stat(name); err == nil {
		return name, nil
	}
	if !IsName(name) {
		return "", fmt.Errorf("model %s: no such file or directory", name)
	}
	dir, err := Pull(ctx, name, o)
	if err != nil {
		return "", fmt.Errorf("model %s: %w", name, err)
	}
	return dir, nil
}
