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

// Every hostile program is held without a control group, and as an unprivileged user.
func TestEveryHostileProgram(t *testing.T) {
	trinitytest.Long(t, "tries every hostile program in every tier", "internal/sandbox")
	sandbox.EveryHostileProgram(t)
}
