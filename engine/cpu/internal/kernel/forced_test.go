package kernel

import (
	"strings"
	"testing"
)

func TestForced(t *testing.T) {
	defer choose()
	for _, name := range Available() {
		t.Setenv(Variable, name)
		if got, err := Forced(); got != name || err != nil {
			t.Errorf("%s: forced %q, %v", name, got, err)
		}
		if got := choose(); got != name || Active() != name {
			t.Errorf("%s is forced: chose %s, active %s", name, got, Active())
		}
	}
	t.Setenv(Variable, "avx9")
	if got, err := Forced(); got != "" || err == nil || !strings.Contains(err.Error(), `TRINITY_KERNELS is "avx9": this processor runs `) ||
		!strings.Contains(err.Error(), "portable") {
		t.Errorf("avx9: forced %q, %v; want an error that lists the sets", got, err)
	}
	if got := choose(); got == "avx9" {
		t.Errorf("chose %s", got)
	}
}

// TestForcedSetExists fails when the tests are run under a variable that has no effect.
func TestForcedSetExists(t *testing.T) {
	if _, err := Forced(); err != nil {
		t.Fatal(err)
	}
}
