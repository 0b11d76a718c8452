package tinker

// Modules returns the linear maps that get an adapter where train_mlp, train_attn and train_unembed say so, by their names in PEFT.
func Modules(mlp, attention, unembed bool) (all []string) {
	switch {
	case mlp && attention:
		all = []string{"all-linear"}
	case attention:
		all = []string{"q_proj", "k_proj", "v_proj", "o_proj"}
	case mlp:
		all = []string{"gate_proj", "up_proj", "down_proj"}
	}
	if unembed {
		all = append(all, "lm_head")
	}
	return all
}
