package advantage

import "github.com/trinity-go/trinity/registry"

func init() {
	registry.Advantages.Register("grpo_verl",
		"Alias of grpo. Trinity-RFT's variant in the trainer has the same formula; here the pipeline compares rollouts, where "+
			"groups are whole.", newGRPO)
}
