package sandbox_test

import (
	"strings"
	"testing"

	"github.com/trinity-go/trinity/sandbox"
	"github.com/trinity-go/trinity/trinitytest"
)

func TestConformance(t *testing.T) {
	for _, isolation := range []sandbox.Isolation{sandbox.Full, sandbox.Best, sandbox.None} {
		t.Run(string(isolation), func(t *testing.T) {
			s, err := sandbox.New(isolation)
			if err != nil {
				t.Skip(err)
			}
			trinitytest.Sandbox(t, s)
		})
	}
}

// Full isolation is all or an error that names what is missing.
func TestIsolationIsNamed(t *testing.T) {
	var missing []string
	for _, l := range sandbox.Layers() {
		if !l.Works && l.Name != "cgroup" && l.Name != "limits" {
			missing = append(missing, l.Name)
		}
	}
	_, err := sandbox.New(sandbox.Full)
	if (err != nil) != (len(missing) > 0) {
		t.Errorf("%v, though this machine lacks %q", err, missing)
	}
	for _, name := range missing {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("%v does not name %s", err, name)
		}
	}
	if s, err := sandbox.New(sandbox.None); err != nil || len(s.Lacks()) != 3 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := sandbox.New("fully"); err == nil || !strings.Contains(err.Error(), `"fully"`) {
		t.Error(err)
	}
}
