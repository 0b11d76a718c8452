package algorithm

import (
	"fmt"

	"github.com/trinity-go/trinity/algorithm/loss"
	"github.com/trinity-go/trinity/registry"
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
		e := registry.ArgError{Key: "policy_loss_fn", Hint: "use algorithm_type " + want}
		e.Message = fmt.Sprintf("%s learns from data of schema %s, and %s reads schema %s", a.Def.PolicyLoss, want, a.Type, schema)
		return e
	case want == "" && bad != "":
		e := registry.ArgError{Key: "policy_loss_fn", Hint: "leave it out"}
		e.Message = fmt.Sprintf("%s would learn from the %s of schema %s as from the others", a.Def.PolicyLoss, bad, schema)
		return e
	}
	return nil
}
