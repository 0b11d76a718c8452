package cli_test

import (
	"path/filepath"
	"regexp"
	"testing"
)

// trinity service opens its models, says what they take and where it serves, and ends with Ctrl-C.
func TestServiceServes(t *testing.T) {
	_, errs := interrupted(t, "", "TINKER_API_KEY=tml-local\n", "service", "--dir", filepath.Join(t.TempDir(), "service"),
		"--addr", "127.0.0.1:0", "--model", "tiny="+filepath.Join(tiny(t), "model"))
	want := `memory of tiny: each model of rank 32, \d\S+ MiB of this machine\nserves at (http://127.0.0.1:\d+): TINKER_BASE_URL=http://127.0.0.1:\d+ TINKER_API_KEY=tml-local\n`
	if !regexp.MustCompile(want).MatchString(errs) {
		t.Errorf("it says %q, want %s", errs, want)
	}
}
