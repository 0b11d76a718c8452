package studio

import (
	"errors"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trinity-go/trinity/internal/config"
)

// A run is planned with the settings and the times in its directory. One that cannot be planned has a
// reason, without the secrets of its configuration.
func TestAdviceIsAboutTheRun(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	advise := func(run string, load func(...string) (*config.Config, error)) (any, error) {
		cfg, err := load("seed=5")
		if err != nil {
			return nil, err
		}
		if cfg.Name == "idle" {
			return nil, errors.New("postgres://me:hush@db has nothing to plan")
		}
		return map[string]any{"run": run, "steps": cfg.Buffer.TotalSteps, "seed": cfg.Seed}, nil
	}
	s := httptest.NewServer((&Server{Dir: dir, Control: "secret", Advise: advise}).Handler())
	t.Cleanup(s.Close)
	for _, name := range []string{"small", "idle", "wrong"} {
		put(t, dir, "p/"+name+"/monitor/metrics.jsonl", line(1, "trainer", `"a":1`))
		put(t, dir, "p/"+name+"/monitor/config.yaml", strings.Replace(small, "name: small", "name: "+name, 1))
	}
	put(t, dir, "p/wrong/monitor/config.yaml", small+"nmae: x\n")
	put(t, dir, "p/bare/monitor/metrics.jsonl", line(1, "trainer", `"a":1`))
	for path, want := range map[string]struct {
		status int
		says   string
	}{
		"small": {200, `{"advice":{"run":"` + filepath.Join(dir, "p/small") + `","seed":5,"steps":2},"reason":""}`},
		"idle":  {200, `{"advice":null,"reason":"postgres://me:***@db has nothing to plan"}`},
		"wrong": {200, `nmae`},
		"bare":  {404, "no configuration"},
		"none":  {404, "no run"},
	} {
		status, text := post(t, s, "runs/p%2F"+path+"/advice", struct{}{})
		if status != want.status || !strings.Contains(text, want.says) {
			t.Errorf("%s: %d %s", path, status, text)
		}
	}
}
