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
	name, use, instead := a.Def.PolicyLoss, "use algorithm_type "+a.Def.PolicyLoss, "leave it out"
	if class, ok := a.Def.PolicyLossArgs["class"].(string); ok {
		name, use = class, "use algorithm_type "+want+", or set its attribute pairs to False"
		if schema == "dpo" {
			instead += ", or say with its attribute pairs = True that it compares chosen and rejected rows"
		}
	}
	switch bad := preferences[schema]; {
	case want != "" && want != schema:
		e := registry.ArgError{Key: "policy_loss_fn", Hint: use}
		e.Message = fmt.Sprintf("%s learns from data of schema %s, and %s reads schema %s", name, want, a.Def.Type, schema)
		return e
	case want == "" && bad != "":
		e := registry.ArgError{Key: "policy_loss_fn", Hint: instead}
		e.Message = fmt.Sprintf("%s would imitate the %s of schema %s", name, bad, schema)
		return e
	}
	return nil
}
