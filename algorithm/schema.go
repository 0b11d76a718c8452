package algorithm

import (
	"fmt"

	"github.com/trinity-go/trinity/algorithm/loss"
)

// preferences are the schemas in which not everything that is read is to be imitated.
var preferences = map[string]string{
	"dpo": "rejected answers", "kto": "undesirable answers",
}

// checkSchema refuses a policy loss over data that mean something else to it.
func (a *Algorithm) checkSchema() error {
	want, schema := "", a.Def.Schema
	if p, ok := a.Loss.Policy.(loss.SchemaLoss); ok {
		want = p.Schema()
	}
	switch bad := preferences[schema]; {
	case want != "" && want != schema:
		return fmt.Errorf("policy_loss_fn %s learns from data of schema %s, and %s reads schema %s: use algorithm_type %s", a.Def.PolicyLoss, want, a.Type, schema, want)
	case want == "" && bad != "":
		return fmt.Errorf("policy_loss_fn %s would learn from the %s of schema %s as from the others: leave policy_loss_fn out", a.Def.PolicyLoss, bad, schema)
	}
	return nil
}
