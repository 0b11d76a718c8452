package advantage

import (
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

func TestConformance(t *testing.T) {
	for _, name := range registry.Advantages.Names() {
		t.Run(name, func(t *testing.T) {
			host := trinitytest.Programs(t)
			trinitytest.Advantage(t, func() trinity.Advantage {
				if name == "python" {
					return inPython(t, host, "own_advantages.centred", nil, nil)
				}
				return made(t, name, nil)
			})
		})
	}
}
