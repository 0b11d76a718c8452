package advantage

import "github.com/trinity-go/trinity/registry"

func init() {
	registry.Advantages.Register("grpo_verl", "Another name of grpo. Trinity-RFT's trainer-side twin has the same formula; groups are compared where they are whole, in the pipeline.", newGRPO)
}
