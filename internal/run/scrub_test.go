package run_test

import (
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/run"
)

// A service that repeats a header and a program that prints its environment put no secret into any file of
// the run, nor before people.
func TestNoSecretIsRepeated(t *testing.T) {
	if _, err := exec.LookPath("sh"); err != nil {
		t.Skip("there is no shell")
	}
	t.Setenv("SOME_API_KEY", "hush-of-the-environment")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "no such user: "+r.Header.Get("Authorization"), http.StatusUnauthorized)
	}))
	defer server.Close()
	const taskset = "buffer.explorer_input.taskset."
	for name, args := range map[string]string{
		"http": "url: " + server.URL + ", headers: {Authorization: Bearer hush-of-the-header}",
		"exec": `command: [sh, -c, "echo $PASS $SOME_API_KEY >&2; while read -r l; do echo '{\"error\": \"'$PASS'\"}'; done"], ` +
			"env: {PASS: hush-of-the-program-1}",
	} {
		p := newProject(t, tiny, strings.ReplaceAll(rl, "test_even", name))
		var said strings.Builder
		cfg := p.load(t, noEvaluation, taskset+"reward_fn_args={"+args+"}")
		_, err := run.Run(t.Context(), t.Context(), cfg, run.Options{Say: func(line string) { said.WriteString(line + "\n") }})
		oneLine(t, err, "failed or have no valid reward", "***")
		if text := err.Error() + said.String(); strings.Contains(text, "hush") {
			t.Errorf("%s: people read %s", name, text)
		}
		err = filepath.WalkDir(p.job(), func(path string, d fs.DirEntry, err error) error {
			if err != nil || !d.Type().IsRegular() {
				return err
			}
			text, err := os.ReadFile(path)
			if i := strings.Index(string(text), "hush"); i >= 0 {
				t.Errorf("%s: %s has %q", name, path, text[max(0, i-40):min(len(text), i+40)])
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}
