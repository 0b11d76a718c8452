package sandbox_test

import (
	"testing"

	"github.com/trinity-go/trinity/internal/sandbox"
	"github.com/trinity-go/trinity/trinitytest"
)

// What a container has conforms as well.
func TestConformanceOfTiers(t *testing.T) {
	if testing.Short() {
		t.Skip("the suite waits for programs that run out of time")
	}
	for name, s := range sandbox.Tiers(t) {
		t.Run(name, func(t *testing.T) { trinitytest.Sandbox(t, s) })
	}
}
