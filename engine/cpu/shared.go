package cpu

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/trinity-go/trinity/engine/cpu/internal/kernel"
)

// sharedWeights are frozen base weights: one copy for all engines of the process that opened the
// same file.
type sharedWeights struct {
	key   string
	users int // guarded by sharing
	read  sync.Once
	arena *kernel.Arena
	flat  []float32
	err   error
}

// sharing guards inUse.
var (
	sharing sync.Mutex
	inUse   = map[string]*sharedWeights{}
)

// shareWeights returns the weights of a key. Its first caller reads them; every caller must release
// them.
func shareWeights(key string, read func(*kernel.Arena) ([]float32, error)) (*sharedWeights, error) {
	sharing.Lock()
	w := inUse[key]
	if w == nil {
		w = &sharedWeights{key: key, arena: kernel.NewArena()}
		inUse[key] = w
	}
	w.users++
	sharing.Unlock()
	w.read.Do(func() { w.flat, w.err = read(w.arena) })
	if w.err != nil {
		w.release()
		return nil, w.err
	}
	return w, nil
}

// release frees the weights after their last user.
func (w *sharedWeights) release() error {
	if w == nil {
		return nil
	}
	sharing.Lock()
	defer sharing.Unlock()
	if w.users--; w.users > 0 {
		return nil
	}
	delete(inUse, w.key)
	return w.arena.Free()
}

// weightsKey identifies the weights that opts read: the files with their sizes and times, and the
// options that change the result.
func weightsKey(opts Options) (string, error) {
	path, err := filepath.Abs(opts.ModelPath)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil {
		return "", fmt.Errorf("cpu: %w", err)
	}
	files := []string{path}
	entries, _ := os.ReadDir(path) // fails for a file, which has no entries
	for _, e := range entries {
		if ext := filepath.Ext(e.Name()); ext == ".safetensors" || ext == ".json" {
			files = append(files, filepath.Join(path, e.Name()))
		}
	}
	key := fmt.Sprintf("%s %d %s", opts.InitStyle, opts.InitSeed, opts.DType)
	if head, isNew := opts.head(); isNew {
		key += fmt.Sprintf(" %s %d", head, opts.Seed)
	}
	for _, file := range files {
		info, err := os.Stat(file)
		if err != nil {
			return "", fmt.Errorf("cpu: %w", err)
		}
		key += fmt.Sprintf("\n%s %d %d", file, info.Size(), info.ModTime().UnixNano())
	}
	return key, nil
}
