package algorithm

import (
	"fmt"

	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/registry"
)

// preferences maps each schema that holds bad answers to what it calls them.
var preferences = map[string]string{
	"dpo": "rejected answers", "kto": "undesirable answers",
}

// checkSchema refuses a policy loss that would misread the data of the algorithm's schema.
func (a *Algorithm) checkSchema() error {
	want, schema := "", a.Def.Schema
	if p, ok := a.Loss.Policy.(loss.SchemaLoss); ok {
		want = p.Schema()
	}
	switch bad := preferences[schema]; {
	case want != "" && want != schema:
		e := registry.ArgError{Key: "policy_loss_fn", Hint: "use algorithm_type " + a.Def.PolicyLoss}
		e.Message = fmt.Sprintf("%s learns from data of schema %s, and %s reads schema %s", a.Def.PolicyLoss, want, a.Def.Type, schema)
		return e
	case want == "" && bad != "":
		e := registry.ArgError{Key: "policy_loss_fn", Hint: "leave it out"}
		e.Message = fmt.Sprintf("%s would imitate the %s of schema %s", a.Def.PolicyLoss, bad, schema)
		return e
	}
	return nil
}
