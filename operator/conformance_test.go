package operator

import (
	"testing"

	"github.com/trinity-go/trinity"
	"github.com/trinity-go/trinity/registry"
	"github.com/trinity-go/trinity/trinitytest"
)

func TestConformance(t *testing.T) {
	required := map[string]args{
		"reward_shaping_mapper": {"reward_shaping_configs": []any{args{"stats_key": "length", "op_type": "SUB", "weight": 0.1}}},
	}
	for _, name := range registry.Operators.Names() {
		t.Run(name, func(t *testing.T) {
			trinitytest.Operator(t, func() trinity.Operator { return build(t, name, required[name]) })
		})
	}
}
