package cpu

import (
	"context"

	"github.com/trinity-go/trinity/modelfile"
)

// SaveModel writes the current weights as a Hugging Face directory, or the adapters as a PEFT directory. Tokenizer files are the
// caller's: see modelfile.CopyTokenizer.
func (e *Engine) SaveModel(ctx context.Context, dir string) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	return modelfile.WriteDir(dir, e.cfg, weightSource{e}, e.opts.SaveDType)
}
