//go:build unix

package run_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/trinity-go/trinity/internal/config"
	"github.com/trinity-go/trinity/internal/run/settle"
)

// A run of another hand may have pipes where a run has files. Who looks at its data does not wait for a
// writer.
func TestLookingAtDataOpensNoPipe(t *testing.T) {
	dir := t.TempDir()
	model, word, template := filepath.Join(dir, "m"), filepath.Join(dir, "buffer", "store_word"), filepath.Join(dir, "template")
	if err := os.CopyFS(model, os.DirFS("../../examples/quickstart/model")); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "buffer/x"), "")
	special := filepath.Join(model, "special_tokens_map.json")
	for _, pipe := range []string{word, special, template} {
		if err := syscall.Mkfifo(pipe, 0o600); err != nil {
			t.Skip(err)
		}
	}
	text := strings.NewReplacer("DIR", dir, "mode: both", "mode: explore", "model_path: m", "model_path: "+model).Replace(explores) +
		"  trainer_input: {experience_buffer: {storage_type: sql}}\n"
	if got := sourcesOf(t, dir, text)["buffer.trainer_input.experience_buffer"]; !strings.Contains(got.Problem, "no regular file") {
		t.Errorf("the buffer is %+v", got)
	}
	for _, override := range []string{"seed=1", "model.chat_template_path=" + template} {
		cfg, err := config.Parse("config.yaml", []byte(text), config.Options{Overrides: []string{override}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := settle.OpenText(cfg.Settled()[0]); err == nil || !strings.Contains(err.Error(), "no regular file") {
			t.Errorf("%s: %v", override, err)
		}
	}
}
