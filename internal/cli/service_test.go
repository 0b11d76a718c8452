package cli_test

import (
	"path/filepath"
	"regexp"
	"testing"

	"github.com/trinity-go/trinity/internal/serve/tinker"
)

// trinity service opens its models, says what they take and where it serves, and ends with Ctrl-C.
func TestServiceServes(t *testing.T) {
	_, errs := interrupted(t, "", "TINKER_API_KEY=tml-local\n", "service", "--dir", filepath.Join(t.TempDir(), "service"),
		"--addr", "127.0.0.1:0", "--model", "tiny="+filepath.Join(tiny(t), "model"))
	want := `memory of tiny: each model of rank 32, \d\S+ MiB of this machine\n` +
		`serves at (http://127.0.0.1:\d+): TINKER_BASE_URL=http://127.0.0.1:\d+ TINKER_API_KEY=tml-local\n`
	if !regexp.MustCompile(want).MatchString(errs) {
		t.Errorf("it says %q, want %s", errs, want)
	}
}

// A service with keys serves other machines, and says that clients need one.
func TestServiceHasKeys(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "service")
	if _, err := tinker.AddKey(t.Context(), dir, tinker.Key{Name: "ann"}); err != nil {
		t.Fatal(err)
	}
	_, errs := interrupted(t, "", "trinity keys add has printed\n", "service", "--dir", dir,
		"--addr", "0.0.0.0:0", "--model", "tiny="+filepath.Join(tiny(t), "model"))
	want := `(?m)^serves at (http://[^:]+:\d+): TINKER_BASE_URL=http://[^:]+:\d+ TINKER_API_KEY=KEY, one that trinity keys add has printed\n`
	if !regexp.MustCompile(want).MatchString(errs) {
		t.Errorf("it says %q, want %s", errs, want)
	}
}
